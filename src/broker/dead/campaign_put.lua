-- campaign_put: begin a campaign. It begins with the write that a full Redis refuses, so it is refused as a whole.
-- plan: what it is to do, as JSON. most: the most campaigns that are known. call, action: the note for the audit.
-- returns {1, '' or why this is not noted} begun, {0} there are too many
local campaigns, campaign, audit = unpack(KEYS)
local id, state, plan, most, call, action = unpack(ARGV)
if redis.call('EXISTS', campaign) == 1 then return { 1 } end
if redis.call('HLEN', campaigns) >= tonumber(most) then return { 0 } end
local now = ms_text(now_ms())
redis.call('HSET', campaign, 'plan', plan, 'state', state, 'cursor', '0-0', 'created_ms', now, 'changed_ms', now)
redis.call('HSET', campaigns, id, 'active')
return { 1, why_not_noted(audit, call, action) }
