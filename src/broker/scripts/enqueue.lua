-- enqueue: append jobs to one lane.
-- KEYS 1 stream  2 control  3 delayed  4 stream high  5 stream normal  6 stream low
-- ARGV 1 the producer's limit of the depth or ''  2 how many jobs
--      then for each job: the number of its field names and values together, then these, flat
-- returns {jobs, entry id, entry id, ...}, or {-1, depth, limit} where they do not fit
local limit = depth_limit(KEYS[2], ARGV[1])
local full = limit and overfull(limit, ARGV[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6])
if full then return full end
local answer, at = { 0 }, 3
while at <= #ARGV do
  local last = at + tonumber(ARGV[at])
  answer[1] = answer[1] + 1
  answer[answer[1] + 1] = redis.call('XADD', KEYS[1], '*', unpack(ARGV, at + 1, last))
  at = last + 1
end
return answer
