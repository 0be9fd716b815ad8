-- cron_move: move the state of a recurring job if it is still the one that was read, and make every process read it
-- again.
-- read, moved: the state that was read, and the new one.
-- returns {1} done, {0} the state is another
local ticks = KEYS[1]
local name, read, moved = unpack(ARGV)
if redis.call('HGET', ticks, name) ~= read then return { 0 } end
redis.call('HSET', ticks, name, moved)
redis.call('HINCRBY', ticks, ':revision', 1)
return { 1 }
