-- listed: a page of the list of the dead letters.
-- cursor: '0' for the first page, then what the last page returned.
-- returns {how many letters the list has more than there are, the cursor of the next page or '0', then for each letter: its id,
--   and the id of its job or ''}
local dead, list = KEYS[1], KEYS[2]
local cursor = ARGV[1]
local page = redis.call('HSCAN', list, cursor, 'COUNT', 100)
local answer = { math.max(0, redis.call('HLEN', list) - redis.call('XLEN', dead)), page[1] }
for at = 1, #page[2], 2 do add_pair(answer, page[2][at], string.match(page[2][at + 1], '^%S* (.*)$') or '') end
return answer
