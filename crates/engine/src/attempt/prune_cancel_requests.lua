-- prune_cancel_requests: forget the cancellation requests that can no longer take effect. A request that names the entry held at the
-- time ends with that entry: whatever settles it, except a success, checks for the request. Other requests expire after
-- a day.
-- returns {requests that stay, those of them that were checked}
local cancels, locations, high, normal, low = unpack(KEYS)
local skip, most = unpack(ARGV)
local lanes, now = { high = high, normal = normal, low = low }, now_ms()
local page = redis.call('ZRANGE', cancels, skip, skip + most - 1, 'WITHSCORES')
local kept = 0
for at = 1, #page, 2 do
  local lane, entry = string.match(redis.call('HGET', locations, page[at]) or '', '^(%S+) (%S+)')
  local stays = math.abs(now - tonumber(page[at + 1])) < 86400000
  if lanes[lane] then stays = pending_of(lanes[lane], entry) end
  if stays then
    kept = kept + 1
  else
    redis.call('ZREM', cancels, page[at])
    redis.call('HDEL', locations, page[at])
  end
end
return { redis.call('ZCARD', cancels), kept }
