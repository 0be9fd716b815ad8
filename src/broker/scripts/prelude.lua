-- prelude: put before every script. Lua has no rollback, so a script that settles an entry works in this order: hold
-- (the fence), then inserts, then settle. XCLAIM is allowed when Redis is out of memory, and once a script has written
-- the rest is admitted too, so settling never depends on free memory.

-- The server's clock in milliseconds: the only clock there is. Read once per script.
local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- The fence: true where the entry is still pending, which makes it ours; false where somebody settled it.
local function hold(stream, consumer, entry)
  return #redis.call('XCLAIM', stream, 'fleet', consumer, 0, entry, 'JUSTID') == 1
end

local function settle(stream, entry)
  redis.call('XACK', stream, 'fleet', entry)
  redis.call('XDEL', stream, entry)
end

-- True where a member of a group of so many, idle for so many ms, counts as alive. While a queue is idle, members touch the
-- normal lane's group only when they ask for its lead (a read that waits touches nothing before Redis 7.2), and the more
-- they are, the more rarely each asks.
local function lives(idle, members)
  return idle < math.max(20000, members * 600)
end

-- True where an attempt of this life of the job (it has its created time) succeeded after it was given up, so that what
-- is settled now is a retry that must not start.
local function is_done(record, created)
  return redis.call('HGET', record, 'late') == created
end

-- True where this life of the job has a record only because an attempt told of itself (see report): it goes with that
-- attempt. Records that are kept for a living job have no time to live.
local function is_passing(record, created)
  return redis.call('PTTL', record) >= 0 and redis.call('HGET', record, 'created_ms') == created
end

-- True where somebody wants this life of the job cancelled: a wish is for the lives that are not younger than itself.
local function is_unwanted(cancels, id, created)
  local wished = redis.call('ZSCORE', cancels, id)
  return wished and tonumber(created) <= tonumber(wished)
end

-- An entry takes at most so many names and values together: half of what fits onto Lua's stack, and more than any worker
-- takes for a job.
local MOST_VALUES = 4000

-- True where these values of a list are names and values of one entry, flat.
local function is_flat(list, first, last)
  local count = last - first + 1
  if count < 2 or count > MOST_VALUES or count % 2 == 1 then return false end
  for at = first, last do
    local kind = type(list[at])
    if kind ~= 'string' and kind ~= 'number' then return false end
  end
  return true
end

-- Appends these names and values of a list as one entry. The entry's id, or an error, which nobody throws.
local function append(stream, list, first, last)
  if not is_flat(list, first, last) then return { err = 'ERR these are not the fields of an entry' } end
  return redis.pcall('XADD', stream, '*', unpack(list, first, last))
end

-- The same, where an error ends the script: for what was looked at before its first write.
local function must_append(stream, list, first, last)
  if not is_flat(list, first, last) then error('these are not the fields of an entry') end
  return redis.call('XADD', stream, '*', unpack(list, first, last))
end

-- The answer to whoever sends a job with other than names and values, or with too many.
local function refuse_fields(nth, values)
  return redis.error_reply(string.format('ERR job %d of these has %d names and values: at most %d make an entry', nth, values,
    MOST_VALUES))
end

-- Reads packed fields; nil where they are no lane and fields that an entry can have. MessagePack's numbers, and what else is
-- no text, nobody has packed for us.
local function unpacked(packed)
  local read, list = pcall(cmsgpack.unpack, packed)
  if read and type(list) == 'table' and type(list[1]) == 'string' and is_flat(list, 2, #list) then return list end
end

-- Sets packed fields that cannot be appended aside in the dead stream. The letter's id, or an error, which nobody throws.
local function set_aside(dead, packed, job, why, now)
  return redis.pcall('XADD', dead, '*', 'raw', packed, 'dead_job', job, 'dead_reason', 'malformed', 'dead_error', why,
    'dead_at_ms', string.format('%.0f', now))
end

-- Notes an attempt that ended now in the ring of the last 20: 'start end outcome worker error'.
local function note(record, now, elapsed, outcome, worker, error)
  local nth = redis.call('HINCRBY', record, 'noted', 1)
  local times = string.format('%.0f %.0f ', now - elapsed, now)
  redis.call('HSET', record, 'a:' .. (nth - 1) % 20, times .. outcome .. ' ' .. worker .. ' ' .. error)
end

-- Appends a batch's last job, once all its members are done and the batch is closed. Where that job cannot be appended,
-- which a producer of today is told at once, it is set aside, and the member that was last is settled all the same.
local function finish_batch(batch, stream)
  if redis.call('HINCRBY', batch, 'left', -1) > 0 then return end
  local packed = redis.call('HGET', batch, 'follow')
  local list = packed and unpacked(packed)
  if list then
    must_append(stream, list, 2, #list)
  elseif packed then
    -- No script that ends a member names this key: it lies beside the lane.
    local dead = string.gsub(stream, 'jobs[:%a]*$', 'dead')
    local name = string.match(batch, 'batch:(.*)$') or ''
    local letter = set_aside(dead, packed, name, 'the job that follows a batch cannot be appended', now_ms())
    -- Then it stays where it is.
    if type(letter) == 'table' then return end
  end
  redis.call('HSET', batch, 'state', 'done')
  redis.call('HDEL', batch, 'follow')
end

-- What a job's end sets off: frees its lock, tells its batch of a success, and appends the jobs that follow, once for each
-- way to end, however often the job is replayed. `ends` is '' or a packed list: how it ended, then for each job that
-- follows the number of its names and values together, and these. It comes after the first write of its script.
local function conclude(ends, id, record, stream, lock, batch)
  if ends == '' then return end
  local list = cmsgpack.unpack(ends)
  if list[2] and redis.call('HSETNX', record, 'called:' .. list[1], 1) == 1 then
    local at = 2
    while at < #list do
      local last = at + tonumber(list[at])
      must_append(stream, list, at + 1, last)
      at = last + 1
    end
  end
  if list[1] == 'done' and redis.call('HGET', batch, 'm:' .. id) == '1' then
    redis.call('HSET', batch, 'm:' .. id, 0)
    finish_batch(batch, stream)
  end
  if redis.call('GET', lock) == id then redis.call('DEL', lock) end
end

-- Tells the promoter, which blocks on this list, that the head of the delayed set has changed.
local function nudge(delayed, wake, member)
  if redis.call('ZRANGE', delayed, 0, 0)[1] == member then
    redis.call('LPUSH', wake, 1)
    redis.call('LTRIM', wake, 0, 0)
    redis.call('PEXPIRE', wake, 5000)
  end
end

-- The answer that a call of a producer got already, where it is sent a second time because that answer was lost.
local function receipt_of(receipt)
  local given = redis.call('GET', receipt)
  return given and cmsgpack.unpack(given)
end

-- Keeps the answer for longer than a producer goes on sending one call. It comes after the first write of its script.
local function keep_receipt(receipt, answer)
  redis.call('SET', receipt, cmsgpack.pack(answer), 'PX', 40000)
end

-- The most jobs that may wait, run and be due later: what the fleet agreed on or the producer wants, whichever is less.
local function depth_limit(control, own)
  local limit, agreed = tonumber(own), tonumber(redis.call('HGET', control, 'max_depth') or '')
  if limit and agreed then return math.min(limit, agreed) end
  return limit or agreed
end

-- The answer to a producer whose jobs do not fit, `more` in number; nil where they do.
local function overfull(limit, more, delayed, high, normal, low)
  local depth = redis.call('ZCARD', delayed) + redis.call('XLEN', high) + redis.call('XLEN', normal)
    + redis.call('XLEN', low)
  if depth + more > limit then return { -1, depth, limit } end
end

-- Lets the record of a job that ended go after so long, but not while its producer may still send its id again; and with
-- it the ledger of its steps, where one is named.
local function expire(record, now, retention, ledger)
  local least = tonumber(redis.call('HGET', record, 'keep_until_ms') or '0') - now
  local left = string.format('%.0f', math.max(tonumber(retention), least))
  redis.call('PEXPIRE', record, left)
  if ledger then redis.call('PEXPIRE', ledger, left) end
end

-- Notes an error of a step in its ring of the last 5: 'ms kind text'.
local function note_step(ledger, step, now, kind, text)
  local nth = redis.call('HINCRBY', ledger, step .. ':noted', 1)
  redis.call('HSET', ledger, step .. ':e:' .. (nth - 1) % 5, string.format('%.0f ', now) .. kind .. ' ' .. text)
end

-- Moves a dead letter back to the lane that it came from, as a new job with the old fields and id, but not those that
-- would bury it at once: whoever replays a job wants it to run, also after its time. The new entry's id.
local function back_to_lane(dead, letter, record, streams, now)
  local lanes = { high = streams[1], normal = streams[2], low = streams[3] }
  local spent = { replays = true, replay_of = true, expires_at_ms = true }
  local fields, stream, replays = {}, streams[2], 0
  for at = 1, #letter[2], 2 do
    local name, value = letter[2][at], letter[2][at + 1]
    if name == 'dead_origin' then stream = lanes[value] or stream end
    if name == 'replays' then replays = tonumber(value) or 0 end
    if string.sub(name, 1, 5) ~= 'dead_' and not spent[name] then
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    end
  end
  fields[#fields + 1] = 'replay_of'
  fields[#fields + 1] = letter[1]
  fields[#fields + 1] = 'replays'
  fields[#fields + 1] = string.format('%.0f', replays + 1)
  local entry = must_append(stream, fields, 1, #fields)
  if redis.call('EXISTS', record) == 1 then
    redis.call('HSET', record, 'state', 'waiting', 'entry', entry, 'updated_ms', now)
    redis.call('HDEL', record, 'dead_id', 'late', 'first_failed_ms')
  end
  redis.call('XDEL', dead, letter[1])
  return entry
end
