-- agenda: the server's clock, and what is kept of the recurring jobs.
-- KEYS 1 cron  2 cron:ticks
-- ARGV 1 the revision that the caller knows, or ''  2 at most so many bytes of entries; those beyond are left to the caller
--      3.. the names whose states it wants where that is still the revision
-- returns {now ms, revision, {name, state, ...}, {name, packed entry or nil, ...} where it is another}
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
