-- discard: delete large fields that no letter and no job has any more, once no copy of the letter can wait: every entry that
-- came to a lane within a day after the last end of a letter or a job that had them has ended. See leave_to_copies.
-- copied: the token of the fields to the ms of that end.
-- returns {how many were looked at that are in nobody's way any more}; if that is 100, there may be more
local copied, dead = unpack(KEYS, 1, 2)
local FIRST_LANE, DAY_MS, MOST = 3, 86400000, 100
-- No entry that waits or runs in this lane came before this time. 0 if nobody can tell.
local function oldest_ms(stream)
  local length = redis.pcall('XLEN', stream)
  if length == 0 then return math.huge end
  local group = fleet_group(redis.pcall('XINFO', 'GROUPS', stream))
  if not group then return 0 end
  local first = redis.call('XPENDING', stream, 'fleet', '-', '+', 1)[1]
  local oldest, last = first and first[1], group['last-delivered-id']
  -- What waits came after the last one that was delivered; see idle_lane.
  local waits = length > group.pending or group.lag ~= 0
  if waits and not (oldest and is_up_to(oldest, last)) then oldest = last end
  return oldest and tonumber(string.match(oldest, '^%d+')) or math.huge
end
local ended = redis.call('ZRANGE', copied, '-inf', ms_text(now_ms() - DAY_MS), 'BYSCORE', 'LIMIT', 0, MOST, 'WITHSCORES')
if not ended[1] then return { 0 } end
local oldest = math.min(oldest_ms(KEYS[FIRST_LANE]), oldest_ms(KEYS[FIRST_LANE + 1]), oldest_ms(KEYS[FIRST_LANE + 2]))
local done = 0
for at = 1, #ended, 2 do
  if oldest <= ended[at + 1] + DAY_MS then break end
  local key = offloaded_key(dead, ended[at])
  -- Without a time to live, a job or a letter has it again.
  if redis.call('PTTL', key) >= 0 then redis.call('UNLINK', key) end
  redis.call('ZREM', copied, ended[at])
  done = done + 1
end
return { done }
