-- enqueue: append jobs to their lanes.
-- A caller that sends several calls without waiting for their answers gives them a row, and each a turn in it, from 1: a call
-- is accepted only after the one before.
-- most: the producer's limit of the depth or ''. more: how many jobs. turn: '' or that of the call. known: the last turn that
-- the caller knows to be accepted, which counts if the row has expired. Then for each job, or for none if the call only checks
-- whether they fit: its lane, the number of its field names and values together, then these, flat.
-- returns {jobs, entry id, entry id, ...}, or {-1, depth, limit} if they do not fit, or {-2} if the call before is not accepted
local control, delayed, high, normal, low, row = unpack(KEYS)
local most, more, turn, known = unpack(ARGV, 1, 4)
local FIRST_JOB, HEAD = 5, 2
if row and tonumber(redis.call('GET', row) or known) ~= turn - 1 then return { -2 } end
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
-- For longer than any call of the row is under way.
if row then redis.call('SET', row, turn, 'PX', 40000) end
return answer
