-- upcoming: a page of the delayed set, the next due first.
-- KEYS 1 delayed  2 delayed:fields
-- ARGV 1 how many to skip  2 at most so many  3 at most so many bytes; a larger job comes alone
-- returns {now ms, id, due ms, packed fields, id, ...}
local answer, bytes = { now_ms() }, 0
local page = redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[1] + ARGV[2] - 1, 'WITHSCORES')
for at = 1, #page, 2 do
  bytes = bytes + redis.call('HSTRLEN', KEYS[2], page[at])
  if at > 1 and bytes > tonumber(ARGV[3]) then break end
  answer[#answer + 1] = page[at]
  answer[#answer + 1] = page[at + 1]
  answer[#answer + 1] = redis.call('HGET', KEYS[2], page[at]) or ''
end
return answer
