-- depths: how many jobs a queue has in each state.
-- KEYS 1 delayed  2 dead  3 leader  4 stream high  5 stream normal  6 stream low
-- returns {now ms, delayed, dead, due ms of the next delayed or -1, leader or '', then for each lane: entries, pending,
--   id of the oldest entry or ''}
local next = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
local answer = {
  now_ms(), redis.call('ZCARD', KEYS[1]), redis.call('XLEN', KEYS[2]), next and tonumber(next) or -1,
  redis.call('GET', KEYS[3]) or '',
}
for at = 4, 6 do
  local pending = redis.pcall('XPENDING', KEYS[at], 'fleet')
  local oldest = redis.call('XRANGE', KEYS[at], '-', '+', 'COUNT', 1)[1]
  answer[#answer + 1] = redis.call('XLEN', KEYS[at])
  answer[#answer + 1] = pending.err and 0 or pending[1]
  answer[#answer + 1] = oldest and oldest[1] or ''
end
return answer
