-- complete: a job that keeps a record succeeded. If another process has taken over its entry, the success is late: it
-- cancels the retry if that has not started, and changes nothing otherwise.
-- KEYS 1 stream  2 delayed  3 delayed:fields  4 record  5 lock  6 batch  7 ledger of its steps  8 receipts
--      9 the job's offloaded fields
-- ARGV 1 consumer  2 entry id  3 job id  4 elapsed ms  5 result  6 ms to keep the record  7 type  8 lane  9 created ms
--      10 '1' to keep a record, 'forget' to delete it, '0' if there is none  11 what follows, see conclude  12 life
-- returns {1} done, {0} stale, {2} a late success cancelled the retry, {4} not pending, and no trace of this life is left:
--   a plain acknowledgement settled it
local record, now, life = KEYS[4], now_ms(), ARGV[12]
local function done(is_owner)
  if is_owner then
    redis.call('HSET', record, 'state', 'done', 'entry', ARGV[2], 'type', ARGV[7], 'lane', ARGV[8],
      'created_ms', ARGV[9], 'life', life, 'updated_ms', now)
    redis.call('HDEL', record, 'dead_id', 'member')
    if ARGV[5] ~= '' then redis.call('HSET', record, 'result', ARGV[5]) end
    note(record, now, tonumber(ARGV[4]), 'done', ARGV[1], '')
  end
  conclude(ARGV[11], ARGV[3], record, KEYS[1], KEYS[5], KEYS[6], is_owner)
end
if hold(KEYS[1], ARGV[1], ARGV[2]) then
  local is_owner = ARGV[10] ~= '0' and owns(record, life)
  if ARGV[10] ~= '0' then done(is_owner) end
  drop_offloaded(KEYS[9], life, record)
  if ARGV[10] ~= '0' then retire(record, KEYS[7], life, is_owner, now, ARGV[10] == 'forget' and 0 or ARGV[6]) end
  return settle(KEYS[1], ARGV[2], KEYS[8], 'complete', 1)
end
local before = answered(KEYS[8], KEYS[1], ARGV[2], 'complete')
if before[1] ~= 0 then return before end
local told = redis.call('HMGET', record, 'life', 'state', 'created_ms', 'dead:' .. life)
local is_owner = told[1] == life or not told[1] and told[3] == ARGV[9]
if is_owner and told[2] ~= 'retrying' then return { 0 } end
-- If the record belongs to another life, only the retry itself shows that this one continues.
local member = parked(KEYS[2], KEYS[3], ARGV[3], life)
if not is_owner and not member then return { told[4] and 0 or 4 } end
done(is_owner)
retire(record, KEYS[7], life, is_owner, now, ARGV[6])
if member then
  -- Somebody may have edited it in the meantime.
  drop_offloaded(offloaded_by(redis.call('HGET', KEYS[3], member) or '', KEYS[2]), life, record)
  drop_offloaded(KEYS[9], life, record)
  redis.call('ZREM', KEYS[2], member)
  redis.call('HDEL', KEYS[3], member)
else
  -- The retry is already back in its stream. This mark keeps it from running, and the record stays until the retry
  -- arrives.
  redis.call('HSET', record, 'late:' .. life, 1, 'expire_ms', ARGV[6])
  hold_record(record)
end
return leave_receipt(KEYS[1], ARGV[2], KEYS[8], 'complete', 2)
