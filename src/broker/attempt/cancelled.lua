-- cancelled: an attempt ended because its job was cancelled, on request or by its handler.
-- KEYS 1 stream  2 record  3 lock  4 batch  5 ledger of its steps  6 cancels  7 cancels:places  8 receipts
--      9 the entry's offloaded fields
-- ARGV 1 consumer  2 entry id  3 why  4 elapsed ms  5 how it ended  6 the consumer that ran it  7 type  8 lane  9 created ms
--      10 ms to keep the record  11 job id  12 what follows, see conclude  13 life
-- returns {1} cancelled, {0} stale (another process settled this entry; nothing was changed), {2} already done: removed
local record, life, now = KEYS[2], ARGV[13], now_ms()
local before = settled('cancelled', KEYS[1], ARGV[1], ARGV[2], KEYS[8], record, life, KEYS[9])
if before then return before end
local is_owner = owns(record, life)
if is_owner then
  redis.call('HSET', record, 'state', 'cancelled', 'entry', ARGV[2], 'error', ARGV[3], 'type', ARGV[7], 'lane', ARGV[8],
    'created_ms', ARGV[9], 'life', life, 'updated_ms', now)
  note(record, now, tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[3])
end
conclude(ARGV[12], ARGV[11], record, KEYS[1], KEYS[3], KEYS[4], is_owner)
-- A retention of 0 deletes the record.
retire(record, KEYS[5], life, is_owner, now, ARGV[10])
redis.call('ZREM', KEYS[6], life)
redis.call('HDEL', KEYS[7], life)
drop_offloaded(KEYS[9], life, record)
return settle(KEYS[1], ARGV[2], KEYS[8], 'cancelled', 1)
