-- cancelled: an attempt ended because its job was cancelled, by a person or by its handler.
-- KEYS 1 stream  2 record  3 lock  4 batch  5 ledger of its steps  6 cancels
-- ARGV 1 consumer  2 entry id  3 why  4 elapsed ms  5 how it ended  6 the consumer that ran it  7 type  8 lane  9 created ms
--      10 ms to keep the record  11 job id  12 what follows, see conclude
-- returns {1} cancelled, {0} stale (somebody else settled this entry; nothing was changed), {2} done already: gone
if not hold(KEYS[1], ARGV[1], ARGV[2]) then return { 0 } end
if is_done(KEYS[2], ARGV[9]) then
  settle(KEYS[1], ARGV[2])
  return { 2 }
end
local now = now_ms()
redis.call('HSET', KEYS[2], 'state', 'cancelled', 'entry', ARGV[2], 'error', ARGV[3], 'type', ARGV[7], 'lane', ARGV[8],
  'created_ms', ARGV[9], 'updated_ms', now)
note(KEYS[2], now, tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[3])
conclude(ARGV[12], ARGV[11], KEYS[2], KEYS[1], KEYS[3], KEYS[4])
-- No time at all deletes it.
expire(KEYS[2], now, ARGV[10], KEYS[5])
redis.call('ZREM', KEYS[6], ARGV[11])
settle(KEYS[1], ARGV[2])
return { 1 }
