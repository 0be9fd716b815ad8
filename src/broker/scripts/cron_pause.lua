-- cron_pause: pause a recurring job, or let it go on from now.
-- KEYS 1 cron:ticks
-- ARGV 1 name  2 ' paused' or ''
-- returns {1} done, {0} it is so already, {2} there is none of this name
local state = redis.call('HGET', KEYS[1], ARGV[1])
if not state then return { 2 } end
local handled, generation, mark = string.match(state, '^(%d+) (%d+)(.*)$')
if mark == ARGV[2] then return { 0 } end
-- Allowed when Redis is out of memory, and admits the writes behind it: a pause must be possible then.
redis.call('PERSIST', KEYS[1])
if ARGV[2] == '' then handled = string.format('%.0f', now_ms()) end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%s %s%s', handled or '0', generation or '0', ARGV[2]))
redis.call('HINCRBY', KEYS[1], ':revision', 1)
return { 1 }
