-- agenda: the server's clock, and what is kept of the recurring jobs.
-- KEYS 1 cron  2 cron:ticks  3 stream normal
-- ARGV 1 the revision that the caller knows, or ''  2.. the names whose states it wants where that is still the one
-- returns {now ms, revision, consumers that live, {name, state, ...}, {name, packed entry, ...} where it is another}
local revision = tonumber(redis.call('HGET', KEYS[2], ':revision') or 0)
local live, group = 0, redis.pcall('XINFO', 'CONSUMERS', KEYS[3], 'fleet')
if not group.err then
  for _, consumer in ipairs(group) do
    for at = 1, #consumer, 2 do
      if consumer[at] == 'idle' and lives(consumer[at + 1], #group) then live = live + 1 end
    end
  end
end
if tonumber(ARGV[1]) ~= revision then
  return { now_ms(), revision, live, redis.call('HGETALL', KEYS[2]), redis.call('HGETALL', KEYS[1]) }
end
local states = {}
for at = 2, #ARGV do
  states[#states + 1] = ARGV[at]
  states[#states + 1] = redis.call('HGET', KEYS[2], ARGV[at]) or ''
end
return { now_ms(), revision, live, states, {} }
