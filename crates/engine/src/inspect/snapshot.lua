-- snapshot: how many jobs a queue has in each state, and where its oldest are. It changes nothing, and checks the ends of
-- streams and sets, never what is between. It reads no entry, because even for the id alone Lua would get the whole body,
-- however large. A key that cannot be read affects only its own figures. Only with a lease, it also looks at the server's
-- memory and at pending entries: a hundred in each lane, or all if there are few.
-- KEYS 1 delayed  2 dead  3 leader  4 stream high  5 stream normal  6 stream low  7 cron
--   8 places of the jobs in waiting lists  9 gates  10 waiting lists  11 counts, see sample
-- soon_ms: how many ms ahead count as soon. lease: in ms, or ''.
-- returns {now ms, {number of a key that cannot be read, the error, ...}, delayed, those due soon, due ms of the first or -1,
--   dead, leader or '', then for each lane: entries, pending, entries ever added or -1 if only the stream itself knows, where
--   to start reading for the oldest entry that no worker has taken or '', ms of the longest silence of a pending entry or -1;
--   then 0 if there are no recurring jobs, bytes used or -1, bytes allowed, eviction policy, jobs in
--   waiting lists, ms since when the queue is closed or -1, those of the jobs in waiting lists that wait for a worker that knows their
-- type,
--   those that wait for the turn of their value, gates that somebody has closed and open breakers or 0 without a lease, those of
--   single values only while jobs wait for them; the waiting list of the value with the most such jobs or '', the other waiting list that
-- has had
--   jobs for longest or ''; jobs that were moved here from other queues and away since the last sample}
-- An entry that is silent beyond the lease is found wherever it is, unless more are pending than one script may check.
-- Of the others, the oldest stand for all.
local soon_ms, lease = unpack(ARGV)
local function silence(nth, pending)
  if lease == '' then return -1 end
  if pending == 0 then return 0 end
  local most = 0
  local function look(entries)
    for _, entry in ipairs(entries or {}) do most = math.max(most, entry[3]) end
  end
  if pending <= 10000 then look(ask(nth, 'XPENDING', KEYS[nth], 'fleet', 'IDLE', lease, '-', '+', 100)) end
  if most == 0 then look(ask(nth, 'XPENDING', KEYS[nth], 'fleet', '-', '+', 100)) end
  return most
end
local now = now_ms()
-- A priority adds a fraction of a millisecond, and delays no job.
local soon = '(' .. ms_text(now + tonumber(soon_ms) + 1)
local due = (ask(1, 'ZRANGE', KEYS[1], 0, 0, 'WITHSCORES') or {})[2]
local answer = {
  now, unread, ask(1, 'ZCARD', KEYS[1]) or 0, ask(1, 'ZCOUNT', KEYS[1], '-inf', soon) or 0,
  due and math.max(0, tonumber(due)) or -1, ask(2, 'XLEN', KEYS[2]) or 0, ask(3, 'GET', KEYS[3]) or '',
}
for nth = 4, 6 do
  local length, group = ask(nth, 'XLEN', KEYS[nth]), group_of(nth)
  local pending = group and group.pending or 0
  local added, waits = length and -1 or 0, ''
  length = length or 0
  if group then added = group['entries-read'] and group.lag and group['entries-read'] + group.lag or -1 end
  -- Entries are taken in the order of their ids, so those after the last delivered one are exactly those that wait.
  if length > pending then waits = group and '(' .. group['last-delivered-id'] or '-' end
  for _, value in ipairs({ length, pending, added, waits, silence(nth, pending) }) do
    answer[#answer + 1] = value
  end
end
local memory = lease ~= '' and redis.pcall('INFO', 'memory')
memory = type(memory) == 'string' and memory or ''
local shut, till = string.match(ask(9, 'HGET', KEYS[9], 'p:queue') or '', '^(%d+) (%d+) ')
if shut and till ~= '0' and tonumber(till) <= now then shut = nil end
-- Of very many waiting lists, only the first ones are counted.
local page, unserved, fair = ask(10, 'HSCAN', KEYS[10], 0, 'COUNT', 1000), 0, 0
-- All values have their turns, so the first job of the one with the most jobs has waited for about the longest.
local longest, most, valued = '', 0, {}
-- The first job of the waiting list that has had jobs for longest is usually the oldest one.
local lasting, since = '', math.huge
for at = 1, page and #page[2] or 0, 2 do
  local kind = string.match(page[2][at], '^(%a+):')
  local began = tonumber(page[2][at + 1]) or math.huge
  if kind ~= 'fair' and began < since then lasting, since = page[2][at], began end
  if kind == 'key' then valued[#valued + 1] = page[2][at] end
  local length = (kind == 'unknown' or kind == 'fair') and redis.pcall('XLEN', waitlist_key(KEYS[9], page[2][at]))
  if type(length) == 'number' then
    if kind == 'fair' then fair = fair + length else unserved = unserved + length end
    if kind == 'fair' and length > most then longest, most = page[2][at], length end
  end
end
if type(lasting ~= '' and redis.pcall('XLEN', waitlist_key(KEYS[9], lasting))) ~= 'number' then lasting = '' end
-- Gates that somebody has closed, and open breakers, for a leader. The number of rules is bounded; see rule_put.
local shut_gates, tripped = 0, 0
local function count_tripped(name)
  local tripped_till = redis.pcall('HGET', gate_key(KEYS[9], 'breaker', name), 'until_ms')
  if type(tripped_till) == 'string' and (tonumber(tripped_till) or 0) > now then tripped = tripped + 1 end
end
-- The gates with limits of their own, and the fields with a breaker for each value.
local limited, each = {}, {}
for _, field in ipairs(lease ~= '' and ask(9, 'HKEYS', KEYS[9]) or {}) do
  local part, name = string.match(field, '^(%a):(.+)$')
  local rule = (part == 'p' or part == 'c' or part == 'r') and redis.call('HGET', KEYS[9], field) or ''
  if part == 'p' then
    local over = tonumber(string.match(rule, '^%d+ (%d+) ') or '0')
    if over == 0 or over > now then shut_gates = shut_gates + 1 end
  elseif part == 'r' or part == 'c' then
    limited[name] = true
    -- Limits of both kinds have the same breaker.
    local is_first = part == 'r' or redis.call('HEXISTS', KEYS[9], 'r:' .. name) == 0
    if is_first and string.find(rule, '"breaker"', 1, true) then
      each[name] = true
      count_tripped(name)
    end
  end
end
for _, name in ipairs(valued) do
  if each[string.match(name, '^(key:[^=]+)=') or ''] and not limited[name] then count_tripped(name) end
end
local moves = redis.pcall('HMGET', KEYS[11], 'moved_in', 'moved_out')
local rest = {
  ask(7, 'HLEN', KEYS[7]) or 0, tonumber(string.match(memory, 'used_memory:(%d+)') or -1),
  tonumber(string.match(memory, 'maxmemory:(%d+)') or 0), string.match(memory, 'maxmemory_policy:([%w-]+)') or '',
  ask(8, 'HLEN', KEYS[8]) or 0, tonumber(shut or -1), unserved, fair,
  shut_gates, tripped, longest, lasting, tonumber(moves[1] or '') or 0, tonumber(moves[2] or '') or 0,
}
for _, value in ipairs(rest) do answer[#answer + 1] = value end
return answer
