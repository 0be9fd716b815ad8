-- cancel: take one job out of the delayed set for good.
-- KEYS 1 delayed  2 delayed:fields  3 record  4 ledger of its steps
-- ARGV 1 job id  2 ms to keep the record
-- returns {1} cancelled, {0} not in the delayed set
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return { 0 } end
redis.call('HDEL', KEYS[2], ARGV[1])
local now = now_ms()
redis.call('HSET', KEYS[3], 'state', 'cancelled', 'updated_ms', now)
expire(KEYS[3], now, ARGV[2], KEYS[4])
return { 1 }
