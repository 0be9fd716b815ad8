-- campaign_put: begin a campaign. If there are too many, one that is gone or has been over for longest makes room. The first write
-- is one that a full Redis refuses, so it is refused as a whole.
-- plan: what it is to do, as JSON. most: the most campaigns that are known. call, action: the note for the audit.
-- returns {1, '' or why this is not noted} begun, {0} there are too many that are not over
local campaigns, campaign, audit = unpack(KEYS)
local id, state, plan, most, call, action = unpack(ARGV)
if redis.call('EXISTS', campaign) == 1 then return { 1 } end
local oldest, least = nil, math.huge
if redis.call('HLEN', campaigns) >= tonumber(most) then
  local all = redis.call('HGETALL', campaigns)
  for at = 1, #all, 2 do
    local key = campaign_key(campaigns, all[at])
    -- Its key may have expired.
    local is_gone = redis.call('EXISTS', key) == 0
    local changed = not is_gone and all[at + 1] == 'over' and redis.pcall('HGET', key, 'changed_ms')
    local since = type(changed) == 'string' and tonumber(changed) or 0
    if (is_gone or all[at + 1] == 'over') and since < least then oldest, least = all[at], since end
  end
  if not oldest then return { 0 } end
end
local now = ms_text(now_ms())
redis.call('HSET', campaign, 'plan', plan, 'state', state, 'cursor', '0-0', 'created_ms', now, 'changed_ms', now)
if oldest then
  redis.call('UNLINK', campaign_key(campaigns, oldest))
  redis.call('HDEL', campaigns, oldest)
end
redis.call('HSET', campaigns, id, 'active')
return { 1, why_not_noted(audit, call, action) }
