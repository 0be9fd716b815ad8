-- enqueue: append jobs to one lane.
-- most: the producer's limit of the depth or ''. more: how many jobs. Then for each job, or for none if the call only
-- checks whether they fit: the number of its field names and values together, then these, flat.
-- returns {jobs, entry id, entry id, ...}, or {-1, depth, limit} if they do not fit
local stream, control, delayed, high, normal, low = unpack(KEYS)
local most, more = ARGV[1], ARGV[2]
local FIRST_JOB = 3
local limit = depth_limit(control, most)
local full = limit and overfull(limit, more, delayed, high, normal, low)
if full then return full end
-- Checked before the first append, because Lua cannot roll back.
local lasts, jobs, at = {}, 0, FIRST_JOB
while at <= #ARGV do
  local count = tonumber(ARGV[at])
  jobs, at = jobs + 1, at + count + 1
  if not make_entry(count) then return refuse_fields(jobs, count) end
  lasts[jobs] = at - 1
end
local answer = { jobs }
at = FIRST_JOB + 1
for nth, last in ipairs(lasts) do
  answer[nth + 1] = redis.call('XADD', stream, '*', unpack(ARGV, at, last))
  at = last + 2
end
return answer
