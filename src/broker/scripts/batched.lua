-- batched: how far a batch is.
-- KEYS 1 batch
-- ARGV 1 at most so many ids of members that are not done
-- returns {0} no such batch, or {1, state, members, members that are not done, created ms, id, id, ...}
local state = redis.call('HGET', KEYS[1], 'state')
if not state then return { 0 } end
local size, left = tonumber(redis.call('HGET', KEYS[1], 'size')), tonumber(redis.call('HGET', KEYS[1], 'left'))
if state == 'open' then left = left - 1 end
local answer = { 1, state, size, left, redis.call('HGET', KEYS[1], 'created_ms') }
local cursor = '0'
repeat
  local page = redis.call('HSCAN', KEYS[1], cursor, 'MATCH', 'm:*', 'COUNT', 100)
  cursor = page[1]
  for at = 1, #page[2], 2 do
    if page[2][at + 1] == '1' and #answer - 5 < tonumber(ARGV[1]) then answer[#answer + 1] = string.sub(page[2][at], 3) end
  end
until cursor == '0' or #answer - 5 >= tonumber(ARGV[1])
return answer
