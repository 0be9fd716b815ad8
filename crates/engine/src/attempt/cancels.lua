-- cancels: which of these generations, at most 500, somebody has asked to cancel. Without any, only the number of requests is
-- looked up. It also says whether the rules of the queue's gates have changed.
-- waitlist: that of the queue's own gate.
-- returns {requests, revision of the rules or -1 if nobody can read it, jobs that wait in the waiting list, generation, generation, ...}
local cancels, gates, waitlist = unpack(KEYS)
local generations = ARGV
-- Requests that nobody can read must not hide that the rules have changed.
local count = redis.pcall('ZCARD', cancels)
count = type(count) == 'number' and count or 0
local revision, waiting = redis.pcall('HGET', gates, '@rev'), redis.pcall('XLEN', waitlist)
revision = type(revision) == 'table' and -1 or tonumber(revision or 0)
local answer = { count, revision, type(waiting) == 'number' and waiting or 0 }
if count == 0 or #generations == 0 then return answer end
for nth, requested in ipairs(redis.call('ZMSCORE', cancels, unpack(generations))) do
  if requested then answer[#answer + 1] = generations[nth] end
end
return answer
