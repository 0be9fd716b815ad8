-- types_with_jobs: which of these waiting lists of types, at most 100, have jobs. The caller is a worker that knows the types, which is
-- noted about each such waiting list, though not more often than once a second. Without any waiting lists, only whether there are any at
-- all. asked: waiting list to when a worker that knows its type last asked.
-- returns {1 if there are waiting lists or 0, number of a waiting list that has jobs, number of another, ...}
local waitlists, asked, names = KEYS[1], KEYS[2], ARGV
if redis.call('EXISTS', waitlists) == 0 then return { 0 } end
local answer, found = { 1 }, {}
if not names[1] then return answer end
for nth, since in ipairs(redis.call('HMGET', waitlists, unpack(names))) do
  if since then
    answer[#answer + 1] = nth
    found[#found + 1] = names[nth]
  end
end
if not found[1] then return answer end
local now, noted = now_ms(), {}
for nth, before in ipairs(redis.call('HMGET', asked, unpack(found))) do
  if math.abs(now - (tonumber(before or '') or 0)) >= 1000 then add_pair(noted, found[nth], ms_text(now)) end
end
if noted[1] then
  -- Redis allows this even when it is out of memory, and then admits the HSET.
  redis.call('HDEL', asked, '')
  redis.call('HSET', asked, unpack(noted))
end
return answer
