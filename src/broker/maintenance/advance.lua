-- advance: let time pass for all delayed jobs, by moving their due times back. Only for tests of users.
-- KEYS 1 delayed  2 wake  3 advanced
-- ARGV 1 by how many ms  2 the number of this step, from 1; each step is done once  3 the most jobs
-- returns {moved}, {0} if the step was already done, {-1} if there are more jobs: nothing was moved
if tonumber(redis.call('GET', KEYS[3]) or '0') >= tonumber(ARGV[2]) then return { 0 } end
if redis.call('ZCARD', KEYS[1]) > tonumber(ARGV[3]) then return { -1 } end
local jobs = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
redis.call('SET', KEYS[3], ARGV[2])
for at = 1, #jobs, 2 do
  redis.call('ZADD', KEYS[1], tonumber(jobs[at + 1]) - tonumber(ARGV[1]), jobs[at])
end
if jobs[1] then nudge(KEYS[1], KEYS[2], jobs[1]) end
return { #jobs / 2 }
