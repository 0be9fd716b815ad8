-- lead: take or renew the lease of the queue's leader, the process that does its maintenance.
-- KEYS 1 leader  2 stream normal  3 cron:ticks
-- ARGV 1 consumer  2 lease ms, or 0 to give the lease up
-- returns {1, consumers, revision, now ms} leading, {0, consumers, revision, now ms} another process leads, or none. The revision
--   of the recurring jobs is included so that every process learns of a change soon without asking; the clock, so that it
--   learns when the clock is set back.
-- A consumer that asks is a live member, though it may not get any entry for long. No entry has an id beyond this one.
if tonumber(ARGV[2]) > 0 then
  redis.pcall('XREADGROUP', 'GROUP', 'fleet', ARGV[1], 'COUNT', 1, 'STREAMS', KEYS[2], '18446744073709551614-0')
end
local consumers = 0
for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[2])) do
  for at = 1, #group, 2 do
    if group[at] == 'consumers' then consumers = group[at + 1] end
  end
end
local revision = redis.pcall('HGET', KEYS[3], ':revision')
revision = type(revision) == 'string' and tonumber(revision) or 0
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  -- The holder never set a longer lease, so the server's clock was set back. A dead leader must not keep its place that
  -- long.
  local most = tonumber(ARGV[2])
  if most > 0 and redis.call('PTTL', KEYS[1]) > most then redis.call('PEXPIRE', KEYS[1], most) end
  return { 0, consumers, revision, now_ms() }
end
-- Redis allows DEL even when it is out of memory, and then admits the SET.
redis.call('DEL', KEYS[1])
if tonumber(ARGV[2]) == 0 then return { 0, consumers, revision, now_ms() } end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return { 1, consumers, revision, now_ms() }
