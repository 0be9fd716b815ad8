-- backlog: how much work a queue has now and soon. Only looks, and costs the same however much there is. A key that cannot
-- be read costs its own figure and no other.
-- KEYS 1 delayed  2 cron  3 stream high  4 stream normal  5 stream low
-- ARGV 1 what is due within so many ms is soon
-- returns {now ms, {number of a key that cannot be read, the error, ...}, waiting, running, delayed jobs due by then,
--   recurring jobs}
local unread = {}
local function ask(nth, ...)
  local told = redis.pcall(...)
  if type(told) ~= 'table' or not told.err then return told end
  -- So XINFO says that there is nothing.
  if unread[#unread - 1] ~= nth and not string.find(told.err, 'no such key', 1, true) then
    unread[#unread + 1] = nth
    unread[#unread + 1] = told.err
  end
end
local function pending(nth)
  for _, group in ipairs(ask(nth, 'XINFO', 'GROUPS', KEYS[nth]) or {}) do
    local facts = {}
    for at = 1, #group, 2 do facts[group[at]] = group[at + 1] end
    if facts.name == 'fleet' then return facts.pending end
  end
  return 0
end
local now = now_ms()
local waiting, running = 0, 0
for nth = 3, 5 do
  local entries = ask(nth, 'XLEN', KEYS[nth]) or 0
  local held = pending(nth)
  running = running + held
  -- More is pending than there is where somebody has deleted entries.
  waiting = waiting + math.max(entries - held, 0)
end
local soon = string.format('%.0f', now + tonumber(ARGV[1]))
return { now, unread, waiting, running, ask(1, 'ZCOUNT', KEYS[1], '-inf', soon) or 0, ask(2, 'HLEN', KEYS[2]) or 0 }
