-- listed: the letters that are gone among a page of their list. Nothing of a letter is read: it may have 128 KiB.
-- cursor: '0' for the first page, then what the last page returned.
-- returns {how many letters the list has more than there are, the cursor of the next page or '0', then for each letter that is gone:
--   its id, and the id of its job or ''}
local dead, list = KEYS[1], KEYS[2]
local cursor = ARGV[1]
local PAGE = 200
local page = redis.call('HSCAN', list, cursor, 'COUNT', PAGE)
local listed, letters = page[2], {}
for at = 1, #listed, 2 do letters[#letters + 1] = listed[at] end
local answer = { math.max(0, redis.call('HLEN', list) - redis.call('XLEN', dead)), page[1] }
local exist = existing_letters(dead, letters)
for at = 1, #listed, 2 do
  if not exist[listed[at]] then add_pair(answer, listed[at], string.match(listed[at + 1], '^%S* (%S*)') or '') end
end
return answer
