-- submit: append or schedule jobs that have ids, each once. A job whose record is there is left as it is, whatever became
-- of it, so sending again is safe. It begins with the write that a full Redis refuses, so it is refused whole.
-- KEYS 1 control  2 delayed  3 delayed:fields  4 wake  5 stream high  6 stream normal  7 stream low
--      then for each job its record
-- ARGV 1 the producer's limit of the depth or ''
--      then for each job: id, lane, type, 'now', 'in' or 'at', milliseconds, ms for which the id is remembered,
--      the number of the values that follow, then these: names and values flat for 'now', or the packed fields alone
-- returns {jobs, then for each 'new' or 'known', and its state}; {-1, depth, limit} where they do not fit
local now = now_ms()
local lanes = { high = KEYS[5], normal = KEYS[6], low = KEYS[7] }
local jobs, at = {}, 2
while at <= #ARGV do
  local last = at + 6 + tonumber(ARGV[at + 6])
  jobs[#jobs + 1] = { at = at, last = last, record = KEYS[7 + #jobs + 1] }
  at = last + 1
end
-- What is known of a job; a delayed one may have come without a record.
local function state_of(job)
  local state = redis.call('HGET', job.record, 'state')
  local parked = redis.call('HEXISTS', KEYS[3], ARGV[job.at]) == 1
  if parked then return state == 'retrying' and state or 'scheduled' end
  -- Due, and back in its lane.
  if state == 'scheduled' or state == 'retrying' then return 'waiting' end
  return state
end
local limit = depth_limit(KEYS[1], ARGV[1])
if limit then
  local more = 0
  for _, job in ipairs(jobs) do
    if not state_of(job) then more = more + 1 end
  end
  local full = more > 0 and overfull(limit, more, KEYS[2], KEYS[5], KEYS[6], KEYS[7])
  if full then return full end
end
local answer = { #jobs }
for _, job in ipairs(jobs) do
  local state, verdict = state_of(job), 'known'
  if not state then
    local id, lane, at = ARGV[job.at], ARGV[job.at + 1], job.at
    verdict, state = 'new', 'waiting'
    if ARGV[at + 3] == 'now' then
      local entry = redis.call('XADD', lanes[lane], '*', unpack(ARGV, at + 7, job.last))
      redis.call('HSET', job.record, 'entry', entry)
    else
      local due = tonumber(ARGV[at + 4])
      if ARGV[at + 3] == 'in' then due = now + due end
      state = 'scheduled'
      redis.call('HSET', KEYS[3], id, ARGV[at + 7])
      redis.call('ZADD', KEYS[2], due, id)
      redis.call('HSET', job.record, 'due_ms', due)
      nudge(KEYS[2], KEYS[4], id)
    end
    redis.call('HSET', job.record, 'state', state, 'type', ARGV[at + 2], 'lane', lane, 'created_ms', now, 'updated_ms', now,
      'keep_until_ms', now + tonumber(ARGV[at + 5]))
  end
  answer[#answer + 1] = verdict
  answer[#answer + 1] = state
end
return answer
