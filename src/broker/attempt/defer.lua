-- defer: move one attempt to the delayed set.
-- KEYS 1 stream  2 delayed  3 delayed:fields  4 record  5 wake  6 cancels  7 receipts  8 the entry's offloaded fields
--      9 the offloaded fields of the packed fields
-- ARGV 1 consumer  2 entry id  3 job id  4 delay ms  5 packed fields
--      6 'retrying', which is noted in the record, or 'scheduled', which is not
--      7 elapsed ms  8 what failed  9 the consumer that ran it  10 error  11 type  12 lane  13 created ms  14 life
--      15 the earliest due time, ms or ''  16 '1' to write the current time over the last 13 bytes of the fields
-- returns {1} moved, {0} stale (another process settled this entry; nothing was changed), {2} already done: removed,
--   {3} its cancellation was requested: nothing was changed
local record, life, now = KEYS[4], ARGV[14], now_ms()
local before = settled('defer', KEYS[1], ARGV[1], ARGV[2], KEYS[7], record, life, KEYS[8])
if before then return before end
if is_unwanted(KEYS[6], life) then return { 3 } end
must_be_offloaded(KEYS[9])
keep_offloaded(KEYS[9])
local due, is_owner, fields = now + tonumber(ARGV[4]), owns(record, life), ARGV[5]
if ARGV[15] ~= '' then due = math.max(due, tonumber(ARGV[15])) end
if ARGV[16] == '1' then fields = string.sub(fields, 1, -14) .. string.format('%013.0f', now) end
local member = park(KEYS[2], KEYS[3], ARGV[3], life, ARGV[2], due, fields)
if ARGV[6] == 'retrying' and is_owner then
  redis.call('HSETNX', record, 'first_failed_ms', now)
  redis.call('HSET', record, 'state', 'retrying', 'entry', ARGV[2], 'due_ms', due, 'error', ARGV[10],
    'type', ARGV[11], 'lane', ARGV[12], 'created_ms', ARGV[13], 'life', life, 'member', member, 'updated_ms', now)
  note(record, now, tonumber(ARGV[7]), ARGV[8], ARGV[9], ARGV[10])
  redis.call('PERSIST', record)
elseif ARGV[6] ~= 'retrying' and is_passing(record, life) then
  redis.call('DEL', record)
elseif is_owner and redis.call('EXISTS', record) == 1 then
  redis.call('HSET', record, 'state', 'scheduled', 'due_ms', due, 'life', life, 'member', member, 'updated_ms', now)
end
if KEYS[8] ~= KEYS[9] then drop_offloaded(KEYS[8], life, record) end
nudge(KEYS[2], KEYS[5], member)
return settle(KEYS[1], ARGV[2], KEYS[7], 'defer', 1)
