-- backlog: how much work a queue has now and soon. Only looks, and costs the same however much there is. A key that cannot
-- be read costs its own figure and no other.
-- KEYS 1 delayed  2 cron  3 stream high  4 stream normal  5 stream low
-- ARGV 1 what is due within so many ms is soon
-- returns {now ms, {number of a key that cannot be read, the error, ...}, waiting, running, delayed jobs due by then,
--   recurring jobs}
local now = now_ms()
local waiting, running = 0, 0
for nth = 3, 5 do
  local entries = ask(nth, 'XLEN', KEYS[nth]) or 0
  local group = group_of(nth)
  local held = group and group.pending or 0
  running = running + held
  -- More is pending than there is where somebody has deleted entries.
  waiting = waiting + math.max(entries - held, 0)
end
local soon = string.format('%.0f', now + tonumber(ARGV[1]))
return { now, unread, waiting, running, ask(1, 'ZCOUNT', KEYS[1], '-inf', soon) or 0, ask(2, 'HLEN', KEYS[2]) or 0 }
