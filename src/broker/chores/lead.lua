-- lead: take or keep the lease of the process that does a queue's chores.
-- KEYS 1 leader  2 stream normal  3 cron:ticks
-- ARGV 1 consumer  2 lease ms, or 0 to give the lease up
-- returns {1, consumers, revision, now ms} leading, {0, consumers, revision, now ms} another leads, or nobody. The revision of the
--   recurring jobs comes along so that a change of them is known soon, and nobody need ask for it; the clock, so that it is known
--   when it is set back.
-- A consumer that asks is a member and lives, though it may not be given anything for long. Nothing is behind this id.
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
  -- Its holder wanted no more: the server's clock was set back. It must not keep a dead leader's place for so much longer.
  local most = tonumber(ARGV[2])
  if most > 0 and redis.call('PTTL', KEYS[1]) > most then redis.call('PEXPIRE', KEYS[1], most) end
  return { 0, consumers, revision, now_ms() }
end
-- DEL is allowed when Redis is out of memory, and admits the SET behind it.
redis.call('DEL', KEYS[1])
if tonumber(ARGV[2]) == 0 then return { 0, consumers, revision, now_ms() } end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return { 1, consumers, revision, now_ms() }
