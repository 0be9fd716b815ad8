-- gauge: a queue's state, for its leader to report. It checks the ends of streams and sets, never what is between, and
-- of the pending entries a hundred in each lane, or all if there are few. It reads no entry. A key that cannot be read
-- affects only its own figures.
-- KEYS 1 delayed  2 dead  3 stream high  4 stream normal  5 stream low
-- ARGV 1 lease ms  2 how many ms ahead count as soon
-- returns {now ms, {number of a key that cannot be read, the error, ...}, delayed, those due soon, ms by which the first is
--   overdue, dead, where to start reading for the oldest dead letter or '', bytes used or -1, bytes allowed, eviction policy,
--   then for each lane: entries, pending, entries ever added or -1 if only the stream itself knows, where to start reading for
--   the oldest entry that no worker has taken or '', ms of the longest silence of a pending entry}
-- An entry that is silent beyond the lease is found wherever it is, unless more are pending than one script may check.
-- Of the others, the oldest stand for all.
local function silence(nth, pending)
  local most = 0
  local function look(entries)
    for _, entry in ipairs(entries or {}) do most = math.max(most, entry[3]) end
  end
  if pending <= 10000 then look(ask(nth, 'XPENDING', KEYS[nth], 'fleet', 'IDLE', ARGV[1], '-', '+', 100)) end
  if most == 0 then look(ask(nth, 'XPENDING', KEYS[nth], 'fleet', '-', '+', 100)) end
  return most
end
local now = now_ms()
local lanes = {}
for nth = 3, 5 do
  local length, group = ask(nth, 'XLEN', KEYS[nth]), group_of(nth)
  local pending = group and group.pending or 0
  local waits, silent, added = '', 0, length and -1 or 0
  length = length or 0
  -- Entries are taken in the order of their ids, so those after the last delivered one are exactly those that wait.
  if length > pending then waits = group and '(' .. group['last-delivered-id'] or '-' end
  if pending > 0 then silent = silence(nth, pending) end
  if group then added = group['entries-read'] and group.lag and group['entries-read'] + group.lag or -1 end
  for _, value in ipairs({ length, pending, added, waits, silent }) do
    lanes[#lanes + 1] = value
  end
end
local due = (ask(1, 'ZRANGE', KEYS[1], 0, 0, 'WITHSCORES') or {})[2]
local soon = string.format('%.0f', now + tonumber(ARGV[2]))
local dead = ask(2, 'XLEN', KEYS[2]) or 0
local memory = redis.pcall('INFO', 'memory')
memory = type(memory) == 'string' and memory or ''
local answer = {
  now, unread, ask(1, 'ZCARD', KEYS[1]) or 0, ask(1, 'ZCOUNT', KEYS[1], '-inf', soon) or 0,
  due and math.max(0, now - tonumber(due)) or 0, dead, dead > 0 and '-' or '',
  tonumber(string.match(memory, 'used_memory:(%d+)') or -1), tonumber(string.match(memory, 'maxmemory:(%d+)') or 0),
  string.match(memory, 'maxmemory_policy:([%w-]+)') or '',
}
for _, value in ipairs(lanes) do answer[#answer + 1] = value end
return answer
