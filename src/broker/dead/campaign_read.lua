-- campaign_read: what is known about one campaign.
-- returns {1, its fields, flat, the time}
local campaign = KEYS[1]
return { 1, redis.call('HGETALL', campaign), ms_text(now_ms()) }
