-- agenda: the server's clock, and the stored recurring jobs with their states.
-- KEYS 1 cron  2 cron:ticks
-- ARGV 1 the revision that the caller knows, or ''  2 the most bytes of entries; the caller reads those beyond the limit
--      3.. the names whose states the caller wants if the revision is unchanged
-- returns {now ms, revision, {name, state, ...}, {name, packed entry or nil, ...} if the revision has changed}
local revision = tonumber(redis.call('HGET', KEYS[2], ':revision') or 0)
if tonumber(ARGV[1]) ~= revision then
  local entries, bytes = {}, 0
  for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
    bytes = bytes + redis.call('HSTRLEN', KEYS[1], name)
    entries[#entries + 1] = name
    entries[#entries + 1] = bytes <= tonumber(ARGV[2]) and redis.call('HGET', KEYS[1], name) or false
  end
  return { now_ms(), revision, redis.call('HGETALL', KEYS[2]), entries }
end
local states = {}
for at = 3, #ARGV do
  states[#states + 1] = ARGV[at]
  states[#states + 1] = redis.call('HGET', KEYS[2], ARGV[at]) or ''
end
return { now_ms(), revision, states, {} }
