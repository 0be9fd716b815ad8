-- call: wake workers on standby, as many as there are waiting jobs.
-- KEYS 1 calls  2.. streams
-- ARGV 1 the least calls  2 the most calls, 100 or less
-- returns {calls that were added, jobs that wait}
-- Redis allows LTRIM even when it is out of memory, and then admits the LPUSH.
local waiting = 0
for at = 2, #KEYS do
  local groups = redis.pcall('XINFO', 'GROUPS', KEYS[at])
  for _, group in ipairs(groups.err and {} or groups) do
    local facts = {}
    for field = 1, #group, 2 do facts[group[field]] = group[field + 1] end
    if facts.name == 'fleet' then waiting = waiting + redis.call('XLEN', KEYS[at]) - facts.pending end
  end
end
local least, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local wanted = math.max(least, math.min(waiting, most)) - redis.call('LLEN', KEYS[1])
if wanted <= 0 then return { 0, waiting } end
redis.call('LTRIM', KEYS[1], 0, most - 1)
local calls = {}
for nth = 1, wanted do calls[nth] = 1 end
redis.call('LPUSH', KEYS[1], unpack(calls))
redis.call('PEXPIRE', KEYS[1], 10000)
return { wanted, waiting }
