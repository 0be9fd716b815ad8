-- join: make sure that a queue's streams and groups exist, and agree on the lease. A group is always created at 0: the
-- streams hold only live jobs, so everything in them must be delivered.
-- KEYS 1 control  2.. streams
-- ARGV 1 lease ms  2 wire version  3 the most jobs that the queue accepts, 0 for any number, '' to
--      leave the limit as it is
-- returns {groups created, the fleet's lease ms, the fleet's wire version}
-- Adds to an error the key that it is about.
local function of(key, answer) return redis.error_reply(answer.err .. ': ' .. key) end
-- Redis allows this even when it is out of memory, and then admits the other writes: only new workers can free memory
-- again.
local admitted = redis.pcall('HDEL', KEYS[1], '')
if type(admitted) == 'table' then return of(KEYS[1], admitted) end
local created = 0
for at = 2, #KEYS do
  local answer = redis.pcall('XGROUP', 'CREATE', KEYS[at], 'fleet', 0, 'MKSTREAM')
  if not answer.err then
    created = created + 1
  elseif string.sub(answer.err, 1, 9) ~= 'BUSYGROUP' then
    return of(KEYS[at], answer)
  end
end
local consumers = 0
for at = 2, #KEYS do
  for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[at])) do
    local facts = {}
    for nth = 1, #group, 2 do facts[group[nth]] = group[nth + 1] end
    if facts.name == 'fleet' then consumers = consumers + facts.consumers end
  end
end
-- The lease belongs to the fleet: the first consumer of an empty fleet sets it, the others adopt it.
if consumers == 0 then redis.call('HSET', KEYS[1], 'lease_ms', ARGV[1]) end
redis.call('HSETNX', KEYS[1], 'lease_ms', ARGV[1])
redis.call('HSETNX', KEYS[1], 'wire', ARGV[2])
-- The last one to join sets the limit, so a rolling deploy ends with the new limit.
if ARGV[3] == '0' then
  redis.call('HDEL', KEYS[1], 'max_depth')
elseif ARGV[3] ~= '' then
  redis.call('HSET', KEYS[1], 'max_depth', ARGV[3])
end
return { created, tonumber(redis.call('HGET', KEYS[1], 'lease_ms')), tonumber(redis.call('HGET', KEYS[1], 'wire')) }
