-- gauge: what is to be known of a queue's state, for the process that does its chores to tell. Of streams and sets it looks at
-- the ends and never at what is between; of what is pending, at a hundred entries of each lane.
-- KEYS 1 delayed  2 dead  3 stream high  4 stream normal  5 stream low
-- ARGV 1 lease ms  2 ms that are soon
-- returns {now ms, delayed, those due soon, ms by which the first is overdue, dead, from where on the oldest dead letter is or '', live
--   consumers, stale ones, bytes used or -1, bytes allowed, eviction policy, then for each lane: entries, pending, entries ever
--   added, from where on the oldest entry is that nobody has taken or '', ms of the longest silence of a pending entry}
local function facts(list)
  local known = {}
  for at = 1, #list, 2 do known[list[at]] = list[at + 1] end
  return known
end
local function group_of(stream)
  local groups = redis.pcall('XINFO', 'GROUPS', stream)
  for _, group in ipairs(groups.err and {} or groups) do
    group = facts(group)
    if group.name == 'fleet' then return group end
  end
end
-- Whoever is silent beyond the lease is found wherever it is; of the others the oldest entries stand for all.
local function silence(stream)
  local most = 0
  local function look(entries)
    for _, entry in ipairs(entries) do most = math.max(most, entry[3]) end
  end
  look(redis.call('XPENDING', stream, 'fleet', 'IDLE', ARGV[1], '-', '+', 100))
  if most == 0 then look(redis.call('XPENDING', stream, 'fleet', '-', '+', 100)) end
  return most
end
-- A consumer lives that has read or renewed in any lane. Those of claimers come and go, and are no workers.
local idle = {}
local function meet(stream)
  for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', stream, 'fleet')) do
    consumer = facts(consumer)
    if string.sub(consumer.name, -7) ~= '.claims' then
      idle[consumer.name] = math.min(idle[consumer.name] or consumer.idle, consumer.idle)
    end
  end
end
-- How many entries a stream ever had. Where its group does not know, the stream is asked, which answers with its ends too,
-- whatever they weigh.
local function added(stream, group)
  if group and group['entries-read'] and group.lag then return group['entries-read'] + group.lag end
  local told = redis.pcall('XINFO', 'STREAM', stream)
  return not told.err and facts(told)['entries-added'] or 0
end
local now = now_ms()
local lanes = {}
for at = 3, 5 do
  local length, group = redis.pcall('XLEN', KEYS[at]), group_of(KEYS[at])
  length = type(length) == 'number' and length or 0
  local pending = group and group.pending or 0
  local waits, silent = '', 0
  -- Entries are taken in the order of their ids, so those behind the last delivered one are exactly those that wait.
  if length > pending then waits = group and '(' .. group['last-delivered-id'] or '-' end
  if pending > 0 then silent = silence(KEYS[at]) end
  if group and group.consumers > 0 then meet(KEYS[at]) end
  for _, value in ipairs({ length, pending, added(KEYS[at], group), waits, silent }) do
    lanes[#lanes + 1] = value
  end
end
local members, live = 0, 0
for _ in pairs(idle) do members = members + 1 end
for _, silent in pairs(idle) do
  if lives(silent, members) then live = live + 1 end
end
local due = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
local dead = redis.call('XLEN', KEYS[2])
local memory = redis.pcall('INFO', 'memory')
memory = type(memory) == 'string' and memory or ''
local answer = {
  now, redis.call('ZCARD', KEYS[1]), redis.call('ZCOUNT', KEYS[1], '-inf', now + tonumber(ARGV[2])),
  due and math.max(0, now - tonumber(due)) or 0, dead, dead > 0 and '-' or '', live, members - live,
  tonumber(string.match(memory, 'used_memory:(%d+)') or -1), tonumber(string.match(memory, 'maxmemory:(%d+)') or 0),
  string.match(memory, 'maxmemory_policy:([%w-]+)') or '',
}
for _, value in ipairs(lanes) do answer[#answer + 1] = value end
return answer
