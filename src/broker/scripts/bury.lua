-- bury: move one attempt to the dead stream.
-- KEYS 1 stream  2 dead  3 record  4 lock  5 batch  6 cancels
-- ARGV 1 consumer  2 entry id  3 job id  4 reason  5 error  6 failures  7 elapsed ms  8 what failed
--      9 the consumer that ran it  10 type, or '' for bytes that are no job  11 lane  12 created ms  13 fingerprint  14 what follows, see conclude  15.. fields, flat
-- returns {1} buried, {0} stale (somebody else settled this entry; nothing was changed), {2} done already: gone,
--   {3} somebody wants it cancelled: nothing was changed
if not hold(KEYS[1], ARGV[1], ARGV[2]) then return { 0 } end
if is_done(KEYS[3], ARGV[12]) then
  settle(KEYS[1], ARGV[2])
  return { 2 }
end
if ARGV[10] ~= '' and is_unwanted(KEYS[6], ARGV[3], ARGV[12]) then return { 3 } end
local now = now_ms()
redis.call('HSETNX', KEYS[3], 'first_failed_ms', now)
local letter = {}
for at = 15, #ARGV do letter[at - 14] = ARGV[at] end
local function add(name, value)
  letter[#letter + 1] = name
  letter[#letter + 1] = value
end
add('dead_reason', ARGV[4])
add('dead_kind', ARGV[8])
add('dead_error', ARGV[5])
add('dead_attempts', ARGV[6])
add('dead_at_ms', string.format('%.0f', now))
add('dead_first_failed_ms', redis.call('HGET', KEYS[3], 'first_failed_ms'))
add('dead_worker', ARGV[9])
add('dead_origin', ARGV[11])
add('dead_fingerprint', ARGV[13])
local id = must_append(KEYS[2], letter, 1, #letter)
redis.call('HSET', KEYS[3], 'state', 'dead', 'entry', ARGV[2], 'dead_id', id, 'error', ARGV[5],
  'type', ARGV[10], 'lane', ARGV[11], 'created_ms', ARGV[12], 'updated_ms', now)
note(KEYS[3], now, tonumber(ARGV[7]), ARGV[8], ARGV[9], ARGV[5])
redis.call('PERSIST', KEYS[3])
conclude(ARGV[14], ARGV[3], KEYS[3], KEYS[1], KEYS[4], KEYS[5])
settle(KEYS[1], ARGV[2])
return { 1 }
