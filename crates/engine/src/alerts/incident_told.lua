-- incident_told: note that a sink has got the messages about incidents up to a number, or that they were given up. Numbers only
-- grow, so it can be called in any order and any number of times.
-- For each incident: its id and the sink, the number of the message that was handed over or 0, and of that given up or 0.
-- returns {1}
local open, told = unpack(KEYS)
local VALUES_EACH = 3
-- Redis allows this even when it is out of memory, and then admits the other writes.
redis.call('HDEL', told, '')
for nth = 1, #ARGV, VALUES_EACH do
  local field, handed, given_up = unpack(ARGV, nth, nth + VALUES_EACH - 1)
  if redis.call('HEXISTS', open, string.match(field, '^(%S+) ') or '') == 1 then
    local before = redis.call('HGET', told, field) or '0 0'
    local old_handed, old_given_up = string.match(before, '^(%d+) (%d+)$')
    redis.call('HSET', told, field, string.format('%d %d',
      math.max(tonumber(old_handed or 0), tonumber(handed)), math.max(tonumber(old_given_up or 0), tonumber(given_up))))
  end
end
return { 1 }
