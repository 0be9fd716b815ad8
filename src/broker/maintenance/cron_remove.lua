-- cron_remove: delete a recurring job. Jobs that it submitted stay.
-- KEYS 1 cron  2 cron:ticks
-- ARGV 1 name
-- returns {1} deleted, {0} none has this name
local known = redis.call('HDEL', KEYS[1], ARGV[1]) + redis.call('HDEL', KEYS[2], ARGV[1])
if known == 0 then return { 0 } end
redis.call('HINCRBY', KEYS[2], ':revision', 1)
return { 1 }
