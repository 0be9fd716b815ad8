-- upcoming: a page of the delayed set, the next due first. A large job's fields do not pass through Lua, which copies
-- and hashes each byte: the caller reads them.
-- most, most_bytes: the most jobs and the most bytes; a larger job comes alone. most_each: the most bytes of a job that
-- comes with its fields.
-- returns {now ms, member, due ms, packed fields or nil, member, ...}
local delayed, packs = unpack(KEYS)
local skip, most, most_bytes, most_each = unpack(ARGV)
most_bytes, most_each = tonumber(most_bytes), tonumber(most_each)
local answer, bytes = { now_ms() }, 0
local page = redis.call('ZRANGE', delayed, skip, skip + most - 1, 'WITHSCORES')
for at = 1, #page, 2 do
  local size = redis.call('HSTRLEN', packs, page[at])
  bytes = bytes + size
  if at > 1 and bytes > most_bytes then break end
  add_pair(answer, page[at], page[at + 1])
  answer[#answer + 1] = size <= most_each and redis.call('HGET', packs, page[at]) or false
end
return answer
