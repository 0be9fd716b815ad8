-- backlog: how much work a queue has now and soon. Only looks, and costs the same however much there is.
-- KEYS 1 delayed  2 cron  3 stream high  4 stream normal  5 stream low
-- ARGV 1 what is due within so many ms is soon
-- returns {now ms, waiting, running, delayed jobs due by then, recurring jobs}
local now = now_ms()
local waiting, running = 0, 0
for at = 3, 5 do
  local pending = redis.pcall('XPENDING', KEYS[at], 'fleet')
  local held = pending.err and 0 or pending[1]
  running = running + held
  -- More is pending than there is where somebody has deleted entries.
  waiting = waiting + math.max(redis.call('XLEN', KEYS[at]) - held, 0)
end
local soon = string.format('%.0f', now + tonumber(ARGV[1]))
return { now, waiting, running, redis.call('ZCOUNT', KEYS[1], '-inf', soon), redis.call('HLEN', KEYS[2]) }
