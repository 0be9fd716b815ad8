-- upcoming: a page of the delayed set, the next due first. A large job's fields do not pass through Lua, which copies
-- and hashes each byte: the caller reads them.
-- KEYS 1 delayed  2 delayed:fields
-- ARGV 1 how many to skip  2 the most jobs  3 the most bytes; a larger job comes alone  4 the most bytes of a job that comes
--      with its fields
-- returns {now ms, member, due ms, packed fields or nil, member, ...}
local answer, bytes = { now_ms() }, 0
local page = redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[1] + ARGV[2] - 1, 'WITHSCORES')
for at = 1, #page, 2 do
  local size = redis.call('HSTRLEN', KEYS[2], page[at])
  bytes = bytes + size
  if at > 1 and bytes > tonumber(ARGV[3]) then break end
  answer[#answer + 1] = page[at]
  answer[#answer + 1] = page[at + 1]
  answer[#answer + 1] = size <= tonumber(ARGV[4]) and redis.call('HGET', KEYS[2], page[at]) or false
end
return answer
