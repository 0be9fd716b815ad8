-- wake_standby: wake workers on standby, as many as there are waiting jobs.
-- least, most: the fewest and the most calls; no more than 100.
-- returns {calls that were added, jobs that wait}
local calls, streams = KEYS[1], { unpack(KEYS, 2) }
local least, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local waiting = 0
for _, stream in ipairs(streams) do
  local group = fleet_group(redis.pcall('XINFO', 'GROUPS', stream))
  if group then waiting = waiting + redis.call('XLEN', stream) - group.pending end
end
local wanted = math.max(least, math.min(waiting, most)) - redis.call('LLEN', calls)
if wanted <= 0 then return { 0, waiting } end
-- Redis allows LTRIM even when it is out of memory, and then admits the LPUSH.
redis.call('LTRIM', calls, 0, most - 1)
local ones = {}
for nth = 1, wanted do ones[nth] = 1 end
redis.call('LPUSH', calls, unpack(ones))
redis.call('PEXPIRE', calls, 10000)
return { wanted, waiting }
