-- depths: how many jobs a queue has in each state.
-- KEYS 1 delayed  2 dead  3 leader  4 stream high  5 stream normal  6 stream low
-- returns {now ms, delayed, dead, due ms of the next delayed or -1, leader or '', then for each lane: entries, pending,
--   from where on its oldest entry is or '', from where on the oldest entry is that nobody has taken or ''}
-- It reads no entry: however large a body is, Lua would be given all of it for its id.
local function last_delivered(stream)
  local groups = redis.pcall('XINFO', 'GROUPS', stream)
  for _, group in ipairs(groups.err and {} or groups) do
    local facts = {}
    for at = 1, #group, 2 do facts[group[at]] = group[at + 1] end
    if facts.name == 'fleet' then return '(' .. facts['last-delivered-id'] end
  end
  return '-'
end
local next = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
local answer = {
  now_ms(), redis.call('ZCARD', KEYS[1]), redis.call('XLEN', KEYS[2]), next and tonumber(next) or -1,
  redis.call('GET', KEYS[3]) or '',
}
for at = 4, 6 do
  local pending = redis.pcall('XPENDING', KEYS[at], 'fleet')
  local entries = redis.call('XLEN', KEYS[at])
  pending = pending.err and 0 or pending[1]
  answer[#answer + 1] = entries
  answer[#answer + 1] = pending
  answer[#answer + 1] = entries > 0 and '-' or ''
  -- Entries are taken in the order of their ids, so those behind the last delivered one are exactly those that wait.
  answer[#answer + 1] = entries > 0 and (pending > 0 and last_delivered(KEYS[at]) or '-') or ''
end
return answer
