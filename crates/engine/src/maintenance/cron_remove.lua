-- cron_remove: delete a recurring job. Jobs that it submitted stay.
-- returns {1} deleted, {0} none has this name
local cron, ticks, name = KEYS[1], KEYS[2], ARGV[1]
local known = redis.call('HDEL', cron, name) + redis.call('HDEL', ticks, name)
if known == 0 then return { 0 } end
redis.call('HINCRBY', ticks, ':revision', 1)
return { 1 }
