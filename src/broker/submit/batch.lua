-- batch: name the members of a batch and the job that follows it or, without ids, close it. Saying it twice is
-- harmless.
-- KEYS 1 batch  2 stream
-- ARGV 1 packed fields of the job that follows  2 ms to keep the batch  3.. ids of members
-- returns {1} noted, {0} the batch is already closed, and some of these are not its members
local state = redis.call('HGET', KEYS[1], 'state')
if state and state ~= 'open' then
  for at = 3, #ARGV do
    if redis.call('HEXISTS', KEYS[1], 'm:' .. ARGV[at]) == 0 then return { 0 } end
  end
  return { 1 }
end
if not state then
  -- The 1 is the producer's own hold, which closing the batch releases.
  redis.call('HSET', KEYS[1], 'state', 'open', 'follow', ARGV[1], 'left', 1, 'size', 0, 'created_ms', now_ms())
end
for at = 3, #ARGV do
  -- A member that is done stays known, so naming it again does not make the batch wait for it again.
  if redis.call('HSETNX', KEYS[1], 'm:' .. ARGV[at], 1) == 1 then
    redis.call('HINCRBY', KEYS[1], 'left', 1)
    redis.call('HINCRBY', KEYS[1], 'size', 1)
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
if #ARGV == 2 then
  redis.call('HSET', KEYS[1], 'state', 'closed')
  finish_batch(KEYS[1], KEYS[2], 1)
end
return { 1 }
