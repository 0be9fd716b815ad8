-- enqueue: append jobs to their lanes.
-- A caller that sends several calls without waiting for their answers gives them a row, and each a turn in it, from 1: a call
-- is accepted only after the one before.
-- most: the producer's limit of the depth or ''. more: how many jobs. turn: '' or that of the call. known: the last turn that
-- the caller knows to be accepted, which counts if the row has expired. Then the jobs, or none if the call only checks whether
-- they fit. They come in runs of jobs that have the same lane and equally many fields: the lane, how many jobs the run has, the
-- number of field names and values of each, then these, flat.
-- returns {jobs, entry id, entry id, ...}, or {-1, depth, limit} if they do not fit, or {-2} if the call before is not accepted
local control, delayed, high, normal, low, row = unpack(KEYS)
local most, more, turn, known = unpack(ARGV, 1, 4)
local FIRST_RUN, HEAD = 5, 3
if row and tonumber(redis.call('GET', row) or known) ~= turn - 1 then return { -2 } end
local limit = depth_limit(control, most)
local full = limit and overfull(limit, more, delayed, high, normal, low)
if full then return full end
local lanes = { high = high, normal = normal, low = low }
-- Calls visit with the lane, jobs, values of a job and first value of each run, until it returns something.
local function each_run(visit)
  local at, refusal = FIRST_RUN, nil
  while at <= #ARGV and not refusal do
    local lane, jobs, values = unpack(ARGV, at, at + HEAD - 1)
    local first = at + HEAD
    jobs, values = tonumber(jobs), tonumber(values)
    refusal, at = visit(lane, jobs, values, first), first + jobs * values
  end
  return refusal
end
-- Checked before the first append, because Lua cannot roll back.
local lengths, checked = {}, 0
local refusal = each_run(function(lane, jobs, values)
  if not make_entry(values) then return refuse_fields(checked + 1, values) end
  lengths[lane], checked = lengths[lane] or redis.call('XLEN', lanes[lane]), checked + jobs
end)
if refusal then return refusal end
local answer, nth = { checked }, 1
each_run(function(lane, jobs, values, first)
  local stream = lanes[lane]
  for at = first, first + (jobs - 1) * values, values do
    nth = nth + 1
    answer[nth] = redis.call('XADD', stream, '*', unpack(ARGV, at, at + values - 1))
  end
end)
-- For longer than any call of the row is under way.
if row then redis.call('SET', row, turn, 'PX', 40000) end
return answer
