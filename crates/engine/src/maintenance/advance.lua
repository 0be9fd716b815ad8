-- advance: let time pass for all delayed jobs, by moving their due times back. Only for tests of users.
-- by_ms: how far. step: the number of this step, from 1; each step is done once. most: the most jobs.
-- returns {moved}, {0} if the step was already done, {-1} if there are more jobs: nothing was moved
local delayed, wake, advanced = unpack(KEYS)
local by_ms, step, most = unpack(ARGV)
if tonumber(redis.call('GET', advanced) or '0') >= tonumber(step) then return { 0 } end
if redis.call('ZCARD', delayed) > tonumber(most) then return { -1 } end
local jobs = redis.call('ZRANGE', delayed, 0, -1, 'WITHSCORES')
redis.call('SET', advanced, step)
for at = 1, #jobs, 2 do
  redis.call('ZADD', delayed, tonumber(jobs[at + 1]) - tonumber(by_ms), jobs[at])
end
if jobs[1] then nudge(delayed, wake, { [jobs[1]] = true }) end
return { #jobs / 2 }
