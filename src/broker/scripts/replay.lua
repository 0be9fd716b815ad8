-- replay: move one dead letter back to the lane it came from, as a new job with the old fields and id.
-- KEYS 1 dead  2 record  3 stream high  4 stream normal  5 stream low
-- ARGV 1 entry id of the dead letter
-- returns {1, entry id} replayed, {0} no such dead letter (somebody replayed or dropped it)
local found = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])[1]
if not found then return { 0 } end
local lanes = { high = KEYS[3], normal = KEYS[4], low = KEYS[5] }
-- Whoever replays a job wants it to run, also after its time.
local spent = { replays = true, replay_of = true, expires_at_ms = true }
local fields, stream, replays = {}, KEYS[4], 0
for at = 1, #found[2], 2 do
  local name, value = found[2][at], found[2][at + 1]
  if name == 'dead_origin' then stream = lanes[value] or stream end
  if name == 'replays' then replays = tonumber(value) or 0 end
  if string.sub(name, 1, 5) ~= 'dead_' and not spent[name] then
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
end
fields[#fields + 1] = 'replay_of'
fields[#fields + 1] = ARGV[1]
fields[#fields + 1] = 'replays'
fields[#fields + 1] = string.format('%.0f', replays + 1)
local entry = redis.call('XADD', stream, '*', unpack(fields))
if redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('HSET', KEYS[2], 'state', 'waiting', 'entry', entry, 'updated_ms', now_ms())
  redis.call('HDEL', KEYS[2], 'dead_id', 'late', 'first_failed_ms')
end
redis.call('XDEL', KEYS[1], ARGV[1])
return { 1, entry }
