-- depths: how many jobs a queue has in each state.
-- KEYS 1 delayed  2 dead  3 leader  4 stream high  5 stream normal  6 stream low
-- returns {now ms, delayed, dead, due ms of the next delayed or -1, leader or '', then for each lane: entries, pending,
--   id of the oldest entry or '', id of the oldest entry that nobody has taken or ''}
local function first(stream, from)
  local entry = redis.call('XRANGE', stream, from, '+', 'COUNT', 1)[1]
  return entry and entry[1] or ''
end
-- Entries are taken in the order of their ids, so those behind the last delivered one are exactly those that wait.
local function first_waiting(stream)
  local groups, last = redis.pcall('XINFO', 'GROUPS', stream), '0-0'
  if groups.err then return '' end
  for _, group in ipairs(groups) do
    local facts = {}
    for at = 1, #group, 2 do facts[group[at]] = group[at + 1] end
    if facts.name == 'fleet' then last = facts['last-delivered-id'] end
  end
  return first(stream, '(' .. last)
end
local next = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
local answer = {
  now_ms(), redis.call('ZCARD', KEYS[1]), redis.call('XLEN', KEYS[2]), next and tonumber(next) or -1,
  redis.call('GET', KEYS[3]) or '',
}
for at = 4, 6 do
  local pending = redis.pcall('XPENDING', KEYS[at], 'fleet')
  answer[#answer + 1] = redis.call('XLEN', KEYS[at])
  answer[#answer + 1] = pending.err and 0 or pending[1]
  answer[#answer + 1] = first(KEYS[at], '-')
  answer[#answer + 1] = first_waiting(KEYS[at])
end
return answer
