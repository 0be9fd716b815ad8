-- cron_put: store a recurring job if its state is still the one that was read.
-- KEYS 1 cron  2 cron:ticks
-- ARGV 1 name  2 the state that was read, or ''  3 packed entry  4 ms of the last handled tick, or '' for now
--   5 what the state ends with  6 the most entries
-- returns {1} stored, {0} the state is another, {2} there are too many entries
local state = redis.call('HGET', KEYS[2], ARGV[1]) or ''
if state ~= ARGV[2] then return { 0 } end
if state == '' and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[6]) then return { 2 } end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
local revision = redis.call('HINCRBY', KEYS[2], ':revision', 1)
local handled = ARGV[4] ~= '' and ARGV[4] or string.format('%.0f', now_ms())
redis.call('HSET', KEYS[2], ARGV[1], string.format('%s %.0f%s', handled, revision, ARGV[5]))
return { 1 }
