-- worker_drain: ask a worker to take no further job, or to take jobs again. Its next beat hears of it.
-- mode: drain; resume; or keep, by which a worker notes again what its key has lost. by, why: who asks, and why. exit: '1' if
-- the process ends once it runs nothing, else '0'. since_ms: for keep, when it was asked.
-- returns {0} if no such worker is live, {1} if it is noted, {2, by} if it was so already, and by whose request
local worker = KEYS[1]
local mode, by, why, exit, since_ms = unpack(ARGV)
local gone_ms = redis.call('PTTL', worker)
if gone_ms == -2 then return { 0 } end
local known = redis.call('HMGET', worker, 'drain_since_ms', 'drain_by', 'drain_why')
local drains = (tonumber(known[1] or '') or 0) > 0
if mode == 'keep' and known[1] then return { 2, known[2] or '' } end
-- Redis allows PERSIST even when it is out of memory, and then admits the rest.
redis.call('PERSIST', worker)
local answer = { 1 }
if mode ~= 'keep' and drains == (mode == 'drain') then
  -- The same call may have been sent twice.
  if known[2] ~= by or known[3] ~= why then answer = { 2, known[2] or '' } end
  if drains and exit == '1' then redis.call('HSET', worker, 'drain_exit', exit) end
else
  local since = mode == 'keep' and since_ms or mode == 'drain' and ms_text(now_ms()) or '0'
  redis.call('HSET', worker, 'drain_since_ms', since, 'drain_by', by, 'drain_why', why, 'drain_exit', exit)
end
if gone_ms > 0 then redis.call('PEXPIRE', worker, gone_ms) end
return answer
