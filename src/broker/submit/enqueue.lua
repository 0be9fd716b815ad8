-- enqueue: append jobs to one lane.
-- KEYS 1 stream  2 control  3 delayed  4 stream high  5 stream normal  6 stream low
-- ARGV 1 the producer's limit of the depth or ''  2 how many jobs
--      then for each job, or for none if the call only checks whether they fit: the number of its field names and values
--      together, then these, flat
-- returns {jobs, entry id, entry id, ...}, or {-1, depth, limit} if they do not fit
local limit = depth_limit(KEYS[2], ARGV[1])
local full = limit and overfull(limit, ARGV[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6])
if full then return full end
-- Checked before the first append, because Lua cannot roll back.
local ends, jobs, at = {}, 0, 3
while at <= #ARGV do
  local count = tonumber(ARGV[at])
  jobs, at = jobs + 1, at + count + 1
  if not make_entry(count) then return refuse_fields(jobs, count) end
  ends[jobs] = at - 1
end
local answer = { jobs }
at = 4
for nth, last in ipairs(ends) do
  answer[nth + 1] = redis.call('XADD', KEYS[1], '*', unpack(ARGV, at, last))
  at = last + 2
end
return answer
