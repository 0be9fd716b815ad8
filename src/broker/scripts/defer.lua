-- defer: move one attempt to the delayed set.
-- KEYS 1 stream  2 delayed  3 delayed:fields  4 record  5 wake  6 cancels
-- ARGV 1 consumer  2 entry id  3 job id  4 delay ms  5 packed fields
--      6 'retrying', which is noted in the record, or 'scheduled', which is not
--      7 elapsed ms  8 what failed  9 the consumer that ran it  10 error  11 type  12 lane  13 created ms
-- returns {1} moved, {0} stale (somebody else settled this entry; nothing was changed), {2} done already: gone,
--   {3} somebody wants it cancelled: nothing was changed
if not hold(KEYS[1], ARGV[1], ARGV[2]) then return { 0 } end
if is_done(KEYS[4], ARGV[13]) then
  settle(KEYS[1], ARGV[2])
  return { 2 }
end
if is_unwanted(KEYS[6], ARGV[3], ARGV[13]) then return { 3 } end
local now, member = now_ms(), ARGV[3]
local due = now + tonumber(ARGV[4])
-- Two jobs that were sent with one id: neither is lost.
if redis.call('HSETNX', KEYS[3], member, ARGV[5]) == 0 then
  member = member .. '#' .. ARGV[2]
  redis.call('HSET', KEYS[3], member, ARGV[5])
end
redis.call('ZADD', KEYS[2], due, member)
if ARGV[6] == 'retrying' then
  redis.call('HSETNX', KEYS[4], 'first_failed_ms', now)
  redis.call('HSET', KEYS[4], 'state', 'retrying', 'entry', ARGV[2], 'due_ms', due, 'error', ARGV[10],
    'type', ARGV[11], 'lane', ARGV[12], 'created_ms', ARGV[13], 'updated_ms', now)
  note(KEYS[4], now, tonumber(ARGV[7]), ARGV[8], ARGV[9], ARGV[10])
  redis.call('PERSIST', KEYS[4])
elseif is_passing(KEYS[4], ARGV[13]) then
  redis.call('DEL', KEYS[4])
elseif redis.call('EXISTS', KEYS[4]) == 1 then
  redis.call('HSET', KEYS[4], 'state', 'scheduled', 'due_ms', due, 'updated_ms', now)
end
nudge(KEYS[2], KEYS[5], member)
settle(KEYS[1], ARGV[2])
return { 1 }
