-- campaign_read: what is known about one campaign, without the lives that it has replayed.
-- returns {1, its fields, flat, the time}
local campaign = KEYS[1]
local NAMES = { 'plan', 'state', 'why', 'cursor', 'created_ms', 'changed_ms', 'due_ms', 'replayed', 'succeeded', 'died',
  'died_otherwise', 'needs_decision', 'cancelled', 'skipped' }
local told, fields = redis.call('HMGET', campaign, unpack(NAMES)), {}
for at, name in ipairs(NAMES) do
  if told[at] then add_pair(fields, name, told[at]) end
end
return { 1, fields, ms_text(now_ms()) }
