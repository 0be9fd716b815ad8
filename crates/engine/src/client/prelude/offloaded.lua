-- offloaded: the key that has the large fields of an entry or a job.

-- The large fields of a job may be in a key of their own, named for the generation that they were put there for. A name that
-- ends in a colon stands for no key.
local function is_offloaded(key)
  return string.byte(key, -1) ~= 58
end

-- The key stays while an entry names it, which a script has just written …
local function keep_offloaded(key)
  if is_offloaded(key) then redis.call('PERSIST', key) end
end

-- … after checking, before its first write, that the key exists …
local function must_be_offloaded(key)
  if not is_offloaded(key) or redis.call('EXISTS', key) == 1 then return end
  error('the key ' .. key .. ', which has the large fields of the job, is gone')
end

-- … goes at once if its job was not accepted, but not if it has no TTL: then an earlier call accepted this generation …
local function forget_offloaded(key)
  if is_offloaded(key) then redis.call('PEXPIRE', key, 0, 'XX') end
end

-- … is kept for a while if its letter is gone, or a job with a copy of it has ended: somebody may have copied the letter, and only
-- the leader sees when no copy waits any more. It deletes the key then; see discard. If nobody does, Redis does so after a year,
-- or after a day if the login may not tell the leader. A time in the future says that a copy waits in the waiting list of a value; only
-- the end of a job takes that back.
local function leave_to_copies(key, is_end_of_job)
  if redis.call('PEXPIRE', key, '31536000000') == 0 then return end
  local change = is_end_of_job and 'CH' or 'GT'
  local reply = redis.pcall('ZADD', copied_key(key), change, ms_text(now_ms()), name_in(key, 'offloaded'))
  if type(reply) == 'table' then redis.call('PEXPIRE', key, 86400000) end
end

-- … and ends with its generation. The fields of an earlier generation stay if the record says that a letter has them, and otherwise
-- for copies of that letter. record: nil if a letter ends.
local function drop_offloaded(key, generation, record)
  if not is_offloaded(key) then return end
  local token = name_in(key, 'offloaded') or ''
  local of = string.match(token, '^(.*)%-%x+$')
  if not of then return end
  if of == generation then return redis.call('UNLINK', key) end
  if not record or redis.pcall('HEXISTS', record, 'dead:' .. of) == 0 then return leave_to_copies(key, record) end
  redis.pcall('ZREM', copied_key(key), token)
end

-- The key that packed fields name for the large ones; if they name none, a placeholder. delayed: any key of the queue.
local function offloaded_by(pack, delayed)
  local whole, fields = pcall(cmsgpack.unpack, pack)
  local token = nil
  for at = 2, whole and type(fields) == 'table' and #fields or 0, 2 do
    if fields[at] == 'offloaded' then token = string.match(tostring(fields[at + 1]), '^(%S+) ') end
  end
  return offloaded_key(delayed, token or '')
end
