-- lead: take or renew the lease of the queue's leader, the process that does its maintenance.
-- stream: that of the lane `normal`. lease_ms: 0 to give up the lease.
-- returns {1, consumers, revision, now ms} leading, {0, consumers, revision, now ms} another process leads, or none. The
--   revision of the recurring jobs is included so that every process learns of a change soon without asking; the clock,
--   so that it learns when the clock is set back.
local leader, stream, ticks = unpack(KEYS)
local consumer, lease_ms = ARGV[1], tonumber(ARGV[2])
-- A consumer that asks is a live member, though it may not get any entry for long. No entry has an id beyond this one.
if lease_ms > 0 then
  redis.pcall('XREADGROUP', 'GROUP', 'fleet', consumer, 'COUNT', 1, 'STREAMS', stream, '18446744073709551614-0')
end
local group = fleet_group(redis.call('XINFO', 'GROUPS', stream))
local consumers = group and group.consumers or 0
local revision = redis.pcall('HGET', ticks, ':revision')
revision = type(revision) == 'string' and tonumber(revision) or 0
local leads = take_lease(leader, consumer, lease_ms)
return { leads and 1 or 0, consumers, revision, now_ms() }
