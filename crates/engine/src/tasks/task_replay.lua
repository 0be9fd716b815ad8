-- task_replay: replay the next letters of a task, as many as its rate allows by now, and move its cursor past them
-- in the same step. A task that was slow catches up by a second at most. It begins with what a full Redis or a login
-- without the rights refuses, so it is refused as a whole. A letter that cannot be replayed stays, and counts as failed,
-- unless the reason would hit every letter.
-- state, cursor: those that were read. to: the last letter before the next page. per_second: the rate, or '' without one. most: the
-- most letters to replay. max_replays: how often tasks replay a job. rest: how many letters were looked at after the last one that is
-- named. Then for each letter its id, with its record among the keys, the fingerprint of its death, and how many letters were looked
-- at for it, with itself. If all steps of the jobs run again, the ledgers of the jobs follow their records.
-- returns {1, letters replayed, the cursor} done, {0} its state or its cursor is another: nothing was changed
local task, dead, high, normal, low = unpack(KEYS, 1, 5)
local id, state, cursor, to, per_second, most, max_replays, rest = unpack(ARGV, 1, 8)
local FIRST_LETTER, VALUES_EACH, FIRST_RECORD = 9, 3, 6
local reply = redis.call('HMGET', task, 'state', 'cursor', 'due_ms')
if reply[1] ~= state or reply[2] ~= cursor then return { 0 } end
must_end_letters(dead)
-- How many entries the lanes have. Fails if one of them is of another type.
local function waiting()
  return redis.call('XLEN', high) + redis.call('XLEN', normal) + redis.call('XLEN', low)
end
-- True if an error of Redis would hit every letter. Texts that others wrote do not stand at its beginning.
local REFUSED = { OOM = true, NOPERM = true, READONLY = true, MISCONF = true, NOREPLICAS = true }
local function hits_all(why)
  return REFUSED[string.match(why, '^%u+') or ''] or string.find(why, "^ERR The user executing the script can't") == 1
    or string.find(why, '^ERR ACL failure in script') == 1
end
-- How often tasks have replayed the job of a letter. Producers may have written anything.
local function replays_of(found)
  local count = field_of(found, 'dead_campaigns') or ''
  return #count <= 15 and string.find(count, '^%d+$') and tonumber(count) or 0
end
-- Fails before the first write if the large fields of a letter are gone.
local function replay(found, record, ledger, tag)
  local token = string.match(field_of(found, 'offloaded') or '', '^(%S+) ') or ''
  must_be_offloaded(offloaded_key(dead, token))
  local _, generation = back_to_lane(dead, found, record, { high, normal, low }, ledger ~= nil, tag)
  redis.call('HSET', task, replayed_life(generation), 1)
  if ledger then redis.call('DEL', ledger) end
end
local now, step_ms = now_ms(), per_second == '' and 0 or 1000 / tonumber(per_second)
-- If the clock was set back, the next letter need not wait for it.
local due = math.min(math.max(tonumber(reply[3] or '') or now, now - 1000), now + step_ms)
redis.call('HSET', task, 'due_ms', string.format('%.3f', due))
local replayed, skipped, failed, looked, nth, letters = 0, 0, 0, 0, 0, (#ARGV - FIRST_LETTER + 1) / VALUES_EACH
while nth < letters and replayed < tonumber(most) and due <= now do
  local at = FIRST_LETTER + nth * VALUES_EACH
  local letter, fingerprint, seen = unpack(ARGV, at, at + VALUES_EACH - 1)
  local found = letter_at(dead, letter)
  local count = found and replays_of(found)
  local done, why = false, nil
  if found and count < tonumber(max_replays) then
    local tag, before = id .. ' ' .. fingerprint .. string.format(' %.0f', count + 1), waiting()
    local record, ledger = KEYS[FIRST_RECORD + nth], KEYS[FIRST_RECORD + letters + nth]
    local replayed_it, cause = pcall(replay, found, record, ledger, tag)
    done = replayed_it
    why = not done and (type(cause) == 'table' and cause.err or tostring(cause))
    -- A letter whose job is in its lane already must not be tried again.
    if why and hits_all(why) and waiting() == before then
      if replayed == 0 then error(cause, 0) end
      break
    end
  end
  if done then
    replayed, due = replayed + 1, due + step_ms
  elseif why then
    failed = failed + 1
    redis.call('HSET', task, 'error', 'the dead letter ' .. letter .. ': ' .. string.sub(why, 1, 400))
  else
    skipped = skipped + 1
  end
  nth, cursor, looked = nth + 1, letter, looked + tonumber(seen)
end
if nth == letters then cursor, looked = to, looked + tonumber(rest) end
redis.call('HSET', task, 'cursor', cursor, 'due_ms', string.format('%.3f', due))
redis.call('HINCRBY', task, 'replayed', replayed)
redis.call('HINCRBY', task, 'skipped', skipped)
redis.call('HINCRBY', task, 'failed', failed)
redis.call('HINCRBY', task, 'looked', looked)
return { 1, replayed, cursor }
