-- agenda: the server's clock, and the stored recurring jobs with their states.
-- known: the revision that the caller knows, or ''. most_bytes: the most bytes of entries; the caller reads those beyond
-- the limit. Then the names whose states the caller wants if the revision is unchanged.
-- returns {now ms, revision, {name, state, ...}, {name, packed entry or nil, ...} if the revision has changed}
local cron, ticks = unpack(KEYS)
local known, most_bytes = tonumber(ARGV[1]), tonumber(ARGV[2])
local FIRST_NAME = 3
local revision = tonumber(redis.call('HGET', ticks, ':revision') or 0)
if known ~= revision then
  local entries, bytes = {}, 0
  for _, name in ipairs(redis.call('HKEYS', cron)) do
    bytes = bytes + redis.call('HSTRLEN', cron, name)
    add_pair(entries, name, bytes <= most_bytes and redis.call('HGET', cron, name) or false)
  end
  return { now_ms(), revision, redis.call('HGETALL', ticks), entries }
end
local states = {}
for at = FIRST_NAME, #ARGV do add_pair(states, ARGV[at], redis.call('HGET', ticks, ARGV[at]) or '') end
return { now_ms(), revision, states, {} }
