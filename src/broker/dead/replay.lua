-- replay: move one dead letter back to the lane it came from, as a new life with the old fields and id.
-- KEYS 1 dead  2 record  3 stream high  4 stream normal  5 stream low  6 the ledger of its steps
-- ARGV 1 entry id of the dead letter  2 '1' to run all its steps again, even completed ones  3 a name that identifies
--      this call if it is sent twice
-- returns {1, entry id} replayed, {0, state} no such dead letter (somebody replayed or dropped it), and the job's state
--   according to its record, or ''
local found = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])[1]
if not found then
  local told = redis.call('HMGET', KEYS[2], 'replayed', 'state')
  local call, entry = string.match(told[1] or '', '^(%S+) (%S+)$')
  if call == ARGV[3] then return { 1, entry } end
  return { 0, told[2] or '' }
end
local streams = { KEYS[3], KEYS[4], KEYS[5] }
local entry = back_to_lane(KEYS[1], found, KEYS[2], streams, now_ms(), ARGV[2] == '1')
if redis.call('EXISTS', KEYS[2]) == 1 then redis.call('HSET', KEYS[2], 'replayed', ARGV[3] .. ' ' .. entry) end
if ARGV[2] == '1' then redis.call('DEL', KEYS[6]) end
return { 1, entry }
