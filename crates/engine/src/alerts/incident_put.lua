-- incident_put: write down what a check has found, if this process still sends. A full Redis allows it: all of this is
-- bounded, and that Redis is full is itself an incident.
-- own: the process. most: the most incidents that are open. keep: about how many past ones are kept. Then for each incident:
-- 'put', its id and what is known about it; 'end', its id and the same for one that is over, or '' to forget it; 'seen', a
-- queue and up to when it has been checked, or '' to forget it.
-- returns {1, incidents that did not fit} done, {0} another process sends
local sender, open, past, told, acks, seen = unpack(KEYS)
local own, most, keep = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local FIRST, VALUES_EACH = 4, 3
if redis.call('GET', sender) ~= own then return { 0 } end
-- Redis allows these even when it is out of memory, and then admits the other writes.
redis.call('HDEL', open, '')
local left_out = 0
local function put(id, incident)
  if redis.call('HEXISTS', open, id) == 0 and redis.call('HLEN', open) >= most then
    left_out = left_out + 1
    return
  end
  redis.call('HSET', open, id, incident)
end
local ended = {}
local function finish(id, incident)
  ended[id] = true
  local was_there = redis.call('HDEL', open, id) == 1
  redis.call('HDEL', acks, id)
  if was_there and incident ~= '' then redis.call('XADD', past, 'MAXLEN', '~', keep, '*', 'incident', incident) end
end
for nth = FIRST, #ARGV, VALUES_EACH do
  local what, name, value = unpack(ARGV, nth, nth + VALUES_EACH - 1)
  if what == 'put' then
    put(name, value)
  elseif what == 'end' then
    finish(name, value)
  elseif value == '' then
    redis.call('HDEL', seen, name)
  else
    redis.call('HSET', seen, name, value)
  end
end
for _, field in ipairs(next(ended) and redis.call('HKEYS', told) or {}) do
  if ended[string.match(field, '^(%S+) ') or ''] then redis.call('HDEL', told, field) end
end
return { 1, left_out }
