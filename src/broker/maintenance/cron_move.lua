-- cron_move: move the state of a recurring job if it is still the one that was read, and make every process read it
-- again.
-- KEYS 1 cron:ticks
-- ARGV 1 name  2 the state that was read  3 the new state
-- returns {1} done, {0} the state is another
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return { 0 } end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('HINCRBY', KEYS[1], ':revision', 1)
return { 1 }
