-- enqueue: append jobs to one lane.
-- KEYS 1 stream  2 control  3 delayed  4 stream high  5 stream normal  6 stream low
-- ARGV 1 the producer's limit of the depth or ''  2 how many jobs
--      then for each job, or for none where this only looks whether they fit: the number of its field names and values together, then these, flat
-- returns {jobs, entry id, entry id, ...}, or {-1, depth, limit} where they do not fit
local limit = depth_limit(KEYS[2], ARGV[1])
local full = limit and overfull(limit, ARGV[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6])
if full then return full end
-- Looked at before the first is appended: there is no way back.
local jobs, at = 0, 3
while at <= #ARGV do
  local last = at + tonumber(ARGV[at])
  if not make_entry(last - at) then return refuse_fields(jobs + 1, last - at) end
  jobs, at = jobs + 1, last + 1
end
local answer = { jobs }
at = 3
for nth = 1, jobs do
  local last = at + tonumber(ARGV[at])
  answer[nth + 1] = redis.call('XADD', KEYS[1], '*', unpack(ARGV, at + 1, last))
  at = last + 1
end
return answer
