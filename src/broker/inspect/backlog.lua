-- backlog: how much work a queue has now and soon. Read-only, and costs the same for any amount of work. A key that
-- cannot be read affects only its own figure.
-- KEYS 1 delayed  2 cron  3 stream high  4 stream normal  5 stream low
-- ARGV 1 how many ms ahead count as soon
-- returns {now ms, {number of a key that cannot be read, the error, ...}, waiting, running, delayed jobs due by then,
--   recurring jobs}
local now = now_ms()
local waiting, running = 0, 0
for nth = 3, 5 do
  local entries = ask(nth, 'XLEN', KEYS[nth]) or 0
  local group = group_of(nth)
  local held = group and group.pending or 0
  running = running + held
  -- If somebody has deleted entries, more are pending than exist.
  waiting = waiting + math.max(entries - held, 0)
end
local soon = string.format('%.0f', now + tonumber(ARGV[1]))
return { now, unread, waiting, running, ask(1, 'ZCOUNT', KEYS[1], '-inf', soon) or 0, ask(2, 'HLEN', KEYS[2]) or 0 }
