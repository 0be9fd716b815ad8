-- worker_drain: ask a worker to take no further job, or to take jobs again. Its next beat hears of it.
-- mode: drain; resume; or keep, by which a worker notes again what its key has lost. by, why: who asks, and why. exit: '1' if
-- the process ends once it runs nothing, else '0'. since_ms: for keep, when it was asked. call: the name of this call, by which
-- it is known if it is sent again.
-- returns {0} if no such worker is live, {1} if it is noted, {2, by, why} if it was so already: who had asked for it, and why
local worker = KEYS[1]
local mode, by, why, exit, since_ms, call = unpack(ARGV)
local gone_ms = redis.call('PTTL', worker)
if gone_ms == -2 then return { 0 } end
local known = redis.call('HMGET', worker, 'drain_since_ms', 'drain_by', 'drain_why', 'drain_exit', 'drain_call')
if known[5] == call then return { 1 } end
local drains = (tonumber(known[1] or '') or 0) > 0
local ends_too = drains and exit == '1' and known[4] ~= '1'
local is_so = drains == (mode == 'drain') and not ends_too
if mode == 'keep' then is_so = known[1] end
if is_so then return { 2, known[2] or '', known[3] or '' } end
local since = '0'
if mode == 'keep' then
  since = since_ms
elseif mode == 'drain' then
  since = drains and known[1] or ms_text(now_ms())
end
-- Redis allows PERSIST even when it is out of memory, and then admits the rest.
redis.call('PERSIST', worker)
redis.call('HSET', worker, 'drain_since_ms', since, 'drain_by', by, 'drain_why', why, 'drain_exit', exit, 'drain_call', call)
if gone_ms > 0 then redis.call('PEXPIRE', worker, gone_ms) end
return { 1 }
