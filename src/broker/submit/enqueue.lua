-- enqueue: append jobs to their lanes.
-- most: the producer's limit of the depth or ''. more: how many jobs. Then for each job, or for none if the call only
-- checks whether they fit: its lane, the number of its field names and values together, then these, flat.
-- returns {jobs, entry id, entry id, ...}, or {-1, depth, limit} if they do not fit
local control, delayed, high, normal, low = unpack(KEYS)
local most, more = ARGV[1], ARGV[2]
local FIRST_JOB, HEAD = 3, 2
local limit = depth_limit(control, most)
local full = limit and overfull(limit, more, delayed, high, normal, low)
if full then return full end
-- Checked before the first append, because Lua cannot roll back.
local lanes, lengths = { high = high, normal = normal, low = low }, {}
local lasts, jobs, at = {}, 0, FIRST_JOB
while at <= #ARGV do
  local lane, count = ARGV[at], tonumber(ARGV[at + 1])
  jobs, at = jobs + 1, at + HEAD + count
  if not make_entry(count) then return refuse_fields(jobs, count) end
  lengths[lane] = lengths[lane] or redis.call('XLEN', lanes[lane])
  lasts[jobs] = at - 1
end
local answer = { jobs }
at = FIRST_JOB
for nth, last in ipairs(lasts) do
  answer[nth + 1] = redis.call('XADD', lanes[ARGV[at]], '*', unpack(ARGV, at + HEAD, last))
  at = last + 1
end
return answer
