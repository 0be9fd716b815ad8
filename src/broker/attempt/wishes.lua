-- wishes: forget the cancellation requests that can no longer take effect. A request that names the entry held at the
-- time ends with that entry: whatever settles it, except a success, checks for the request. Other requests expire after
-- a day.
-- KEYS 1 cancels  2 cancels:places  3 stream high  4 stream normal  5 stream low
-- ARGV 1 how many to skip  2 how many to check at most
-- returns {requests that stay, those of them that were checked}
local lanes, now = { high = KEYS[3], normal = KEYS[4], low = KEYS[5] }, now_ms()
local page = redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[1] + ARGV[2] - 1, 'WITHSCORES')
local kept = 0
for at = 1, #page, 2 do
  local lane, entry = string.match(redis.call('HGET', KEYS[2], page[at]) or '', '^(%S+) (%S+)$')
  local stays = math.abs(now - tonumber(page[at + 1])) < 86400000
  if lanes[lane] then
    local pending = redis.pcall('XPENDING', lanes[lane], 'fleet', entry, entry, 1)
    stays = not pending.err and pending[1]
  end
  if stays then
    kept = kept + 1
  else
    redis.call('ZREM', KEYS[1], page[at])
    redis.call('HDEL', KEYS[2], page[at])
  end
end
return { redis.call('ZCARD', KEYS[1]), kept }
