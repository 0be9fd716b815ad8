-- join: make sure that a queue's streams and groups exist, and agree on the lease. A group is always created at 0: the
-- streams hold only live jobs, so everything in them must be delivered.
-- wire: the wire version. max_depth: the most jobs that the queue accepts, 0 for any number, '' to leave the limit as it
-- is.
-- receipt: how many groups this call has created before, or a placeholder if nobody asks again.
-- returns {groups created, the fleet's lease ms, the fleet's wire version}
local control, receipt, streams = KEYS[1], KEYS[2], { unpack(KEYS, 3) }
local lease_ms, wire, max_depth = unpack(ARGV)
-- Adds to an error the key that it is about.
local function of(key, answer) return redis.error_reply(answer.err .. ': ' .. key) end
-- Redis allows this even when it is out of memory, and then admits the other writes: only new workers can free memory
-- again.
local admitted = redis.pcall('HDEL', control, '')
if type(admitted) == 'table' then return of(control, admitted) end
local created = 0
for _, stream in ipairs(streams) do
  local answer = redis.pcall('XGROUP', 'CREATE', stream, 'fleet', 0, 'MKSTREAM')
  if not answer.err then
    created = created + 1
  elseif string.sub(answer.err, 1, 9) ~= 'BUSYGROUP' then
    return of(stream, answer)
  end
end
if not is_placeholder(receipt) then
  if created > 0 then
    keep_receipt(receipt, { created })
  else
    local given = receipt_of(receipt)
    created = given and given[1] or 0
  end
end
local consumers = 0
for _, stream in ipairs(streams) do
  local group = fleet_group(redis.call('XINFO', 'GROUPS', stream))
  consumers = consumers + (group and group.consumers or 0)
end
-- The lease belongs to the fleet: the first consumer of an empty fleet sets it, the others adopt it.
if consumers == 0 then redis.call('HSET', control, 'lease_ms', lease_ms) end
redis.call('HSETNX', control, 'lease_ms', lease_ms)
redis.call('HSETNX', control, 'wire', wire)
-- The last one to join sets the limit, so a rolling deploy ends with the new limit.
if max_depth == '0' then
  redis.call('HDEL', control, 'max_depth')
elseif max_depth ~= '' then
  redis.call('HSET', control, 'max_depth', max_depth)
end
return { created, tonumber(redis.call('HGET', control, 'lease_ms')), tonumber(redis.call('HGET', control, 'wire')) }
