-- known: for which of these types, at most 100, jobs wait in a room. The caller is a worker that knows them, and this is
-- noted about each such room, though not more often than once a second. Without any types, only whether there are rooms.
-- returns {1 if there are rooms or 0, number of a type, number of a type, ...}
local unknown, types = KEYS[1], ARGV
if redis.call('EXISTS', unknown) == 0 then return { 0 } end
local answer, now, noted = { 1 }, now_ms(), {}
if not types[1] then return answer end
for nth, room in ipairs(redis.call('HMGET', unknown, unpack(types))) do
  if room then
    answer[#answer + 1] = nth
    local since, asked = string.match(room, '^(%d+) ?(%d*)$')
    -- A room that began in a way that nobody can read begins now.
    since = since or ms_text(now)
    if math.abs(now - (tonumber(asked or '') or 0)) >= 1000 then add_pair(noted, types[nth], since .. ' ' .. ms_text(now)) end
  end
end
if noted[1] then
  -- Redis allows this even when it is out of memory, and then admits the HSET.
  redis.call('HDEL', unknown, '')
  redis.call('HSET', unknown, unpack(noted))
end
return answer
