-- depths: how many jobs a queue has in each state. It reads no entry, because even for the id alone Lua would get the
-- whole body, however large. A key that cannot be read affects only its own figures.
-- KEYS 1 delayed  2 dead  3 leader  4 stream high  5 stream normal  6 stream low
-- returns {now ms, {number of a key that cannot be read, the error, ...}, delayed, dead, due ms of the next delayed or -1,
--   leader or '', then for each lane: entries, pending, where to start reading for its oldest entry or '', where to start
--   reading for the oldest entry that no worker has taken or ''}
local next = (ask(1, 'ZRANGE', KEYS[1], 0, 0, 'WITHSCORES') or {})[2]
local answer = {
  now_ms(), unread, ask(1, 'ZCARD', KEYS[1]) or 0, ask(2, 'XLEN', KEYS[2]) or 0, next and tonumber(next) or -1,
  ask(3, 'GET', KEYS[3]) or '',
}
for nth = 4, 6 do
  local entries = ask(nth, 'XLEN', KEYS[nth]) or 0
  local group = group_of(nth)
  local pending = group and group.pending or 0
  answer[#answer + 1] = entries
  answer[#answer + 1] = pending
  answer[#answer + 1] = entries > 0 and '-' or ''
  -- Entries are taken in the order of their ids, so those after the last delivered one are exactly those that wait.
  answer[#answer + 1] = entries > 0 and (pending > 0 and '(' .. group['last-delivered-id'] or '-') or ''
end
return answer
