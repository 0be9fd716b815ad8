-- records: what is kept about a job besides its entry, and how long.

-- True if a key is a hash or does not exist. Keys of other types are no record and no ledger, and stay as they are.
local function is_hash(key)
  return type(redis.pcall('HEXISTS', key, '')) == 'number'
end

local function has_ended(state)
  return state == 'done' or state == 'dead' or state == 'cancelled'
end

-- What a record says, read once: each is false if it does not. is_known: whether it belongs to this generation. extra, other: the
-- values of two more fields, if they are named.
local function facts_of(record, generation, ...)
  local reply = redis.call('HMGET', record, 'life', 'state', 'created_ms', 'noted', 'first_failed_ms', 'member', 'dead_id',
    'keep_until_ms', 'holds', ...)
  return { is_known = reply[1] == generation, generation = reply[1], state = reply[2], created_ms = reply[3], noted = reply[4],
    first_failed_ms = reply[5], member = reply[6], dead_id = reply[7], keep_until_ms = reply[8], holds = reply[9],
    extra = reply[10], other = reply[11] }
end

-- True if this generation may write the job's record: the record already belongs to it, has no generation, or belongs to a generation
-- that has ended, whose traces are deleted then. If two generations of one id are alive at once, the first one owns the
-- record. Then what the record says about this generation. facts: what it says, if it has been read.
local function owns(record, generation, facts)
  facts = facts or facts_of(record, generation)
  if not facts.generation or facts.is_known then return true, facts end
  if not has_ended(facts.state) then return false, facts end
  redis.call('HDEL', record, 'life', 'error', 'result', 'cancelled_by', 'dead_id', 'first_failed_ms', 'progress', 'note',
    'progress_ms', 'due_ms', 'member', 'children')
  facts.first_failed_ms, facts.member, facts.dead_id = false, false, false
  return true, facts
end

-- Writes fields into the record of a generation that owns it, and beside them what does not change during a generation.
local function write_record(record, facts, job_type, lane, created_ms, generation, ...)
  if facts.is_known and facts.created_ms == created_ms then return redis.call('HSET', record, ...) end
  redis.call('HSET', record, 'type', job_type, 'lane', lane, 'created_ms', created_ms, 'life', generation, ...)
end

-- A record stays, whatever its retention, while a letter or a late success still needs it.
local function hold_record(record)
  redis.call('HINCRBY', record, 'holds', 1)
  redis.call('PERSIST', record)
end

local function release_record(record, ledger)
  if redis.call('HINCRBY', record, 'holds', -1) > 0 then return end
  local reply = redis.call('HMGET', record, 'expire_ms', 'state')
  if reply[1] and (reply[2] == 'done' or reply[2] == 'cancelled') then
    redis.call('PEXPIRE', record, reply[1])
    if ledger then expire_ledger(ledger, reply[1]) end
  end
end

-- True if an attempt of this generation succeeded after it had been given up, so that the entry being settled is a retry that
-- must not start. begin reads the same fields.
local function is_done(record, generation)
  local late = redis.call('HMGET', record, 'late:' .. generation, 'late')
  return late[1] or late[2] == generation
end

-- The retry of a late success has arrived, so the record need not be kept for it any more.
local function meet_late(record, generation)
  if redis.call('HDEL', record, 'late:' .. generation) == 1 then release_record(record) end
end

-- True if this generation has a record only because an attempt reported on itself (see report); the record goes with that
-- attempt. Records that are kept for a living job have no TTL.
local function is_passing(record, generation)
  return redis.call('PTTL', record) >= 0 and redis.call('HGET', record, 'life') == generation
end

-- The fields of a record that note an attempt which ended now in the ring of the last 20: 'start end outcome worker
-- error'. noted: the number of attempts noted before, or false.
local function attempt_fields(noted, now, elapsed, outcome, worker, error)
  local nth, slot = '1', 'a:0'
  if noted then
    local before = tonumber(noted) or 0
    nth, slot = string.format('%d', before + 1), string.format('a:%d', before % 20)
  end
  local times = ms_text(now - elapsed) .. ' ' .. ms_text(now)
  return 'noted', nth, slot, times .. ' ' .. outcome .. ' ' .. worker .. ' ' .. error
end

-- How long the record of a job that ended is kept: no shorter than its producer may resend its id. facts: what the record says.
local function kept_for(now, retention, facts)
  if not facts.keep_until_ms then return retention end
  local keep = tonumber(facts.keep_until_ms)
  -- Never longer than requested, even if the clock was ahead when the job was accepted.
  local least = math.min(keep - now, keep - tonumber(facts.created_ms or '0'))
  return string.format('%.0f', math.max(tonumber(retention), least))
end

-- Sets the TTL of the record of a job that ended, and of the ledger of its steps, if one is named.
local function expire(record, now, retention, ledger, facts)
  local left = kept_for(now, retention, facts)
  if tonumber(facts.holds or '0') > 0 then
    redis.call('HSET', record, 'expire_ms', left)
    redis.call('PERSIST', record)
    return
  end
  redis.call('PEXPIRE', record, left)
  if ledger then expire_ledger(ledger, left) end
end

-- Sets the TTL of everything kept about a generation that ended. ledger: nil if it is known that there is none.
local function retire(record, ledger, generation, is_owner, now, retention, facts)
  if ledger and not leave_ledger(ledger, generation) and redis.call('EXISTS', ledger) == 0 then ledger = nil end
  if is_owner then return expire(record, now, retention, ledger, facts) end
  if not ledger then return end
  local reply = redis.call('HMGET', record, 'state', 'holds')
  if (not reply[1] or has_ended(reply[1])) and tonumber(reply[2] or '0') <= 0 then expire_ledger(ledger, retention) end
end

-- Names in the record of this generation the entry where its job is now, and other fields. Never throws.
local function name_entry(key, id, generation, ...)
  if not id or not generation then return end
  local record = record_key(key, id)
  if redis.pcall('HGET', record, 'life') == generation then redis.pcall('HSET', record, 'entry', ...) end
end

-- Notes in a job's record the ids of the jobs that followed its end. entries: those of the jobs, in this lane.
local function note_children(record, stream, entries)
  local lane = name_in(stream, 'jobs')
  for at, entry in ipairs(entries) do entries[at] = lane and entry .. '-' .. lane or entry end
  redis.pcall('HSET', record, 'children', table.concat(entries, ' '))
end
