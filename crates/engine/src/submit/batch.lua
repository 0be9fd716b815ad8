-- batch: name the members of a batch and the job that follows it or, without ids, close it. Saying it twice is
-- harmless.
-- offloaded: the key of the large fields of the job that follows, which is kept for longer than the batch. follow: its packed
-- fields. After keep_ms come the ids of members.
-- returns {1} noted, {0} the batch is already closed, and some of these are not its members
local batch, stream, offloaded = unpack(KEYS)
local follow, keep_ms = ARGV[1], ARGV[2]
local FIRST_MEMBER = 3
local state = redis.call('HGET', batch, 'state')
if state and state ~= 'open' then
  for at = FIRST_MEMBER, #ARGV do
    if redis.call('HEXISTS', batch, 'm:' .. ARGV[at]) == 0 then return { 0 } end
  end
  return { 1 }
end
if not state then
  must_be_offloaded(offloaded)
  -- The 1 is the producer's own hold, which closing the batch releases.
  redis.call('HSET', batch, 'state', 'open', 'follow', follow, 'offloaded', offloaded, 'left', 1, 'size', 0, 'created_ms', now_ms())
end
for at = FIRST_MEMBER, #ARGV do
  -- A member that is done stays known, so naming it again does not make the batch wait for it again.
  if redis.call('HSETNX', batch, 'm:' .. ARGV[at], 1) == 1 then
    redis.call('HINCRBY', batch, 'left', 1)
    redis.call('HINCRBY', batch, 'size', 1)
  end
end
redis.call('PEXPIRE', batch, keep_ms)
redis.call('PEXPIRE', redis.call('HGET', batch, 'offloaded') or offloaded, tonumber(keep_ms) + 86400000)
if #ARGV < FIRST_MEMBER then
  -- It is closed only if the job that follows it can be appended.
  redis.call('XLEN', stream)
  redis.call('HSET', batch, 'state', 'closed')
  finish_batch(batch, stream, 1)
end
return { 1 }
