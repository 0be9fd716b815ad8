-- cancelled: an attempt ended because its job was cancelled, on request or by its handler.
-- returns {1} cancelled, {0} stale (another process settled this entry; nothing was changed), {2} already done: removed
local stream, record, lock, batch, ledger, cancels, places, receipts, offloaded = unpack(KEYS)
local consumer, entry, why, elapsed_ms, outcome, worker, job_type, lane, created_ms, retention_ms, id, ends,
  life = unpack(ARGV)
local now = now_ms()
local before = settled('cancelled', stream, consumer, entry, receipts, record, life, offloaded)
if before then return before end
local is_owner = owns(record, life)
if is_owner then
  redis.call('HSET', record, 'state', 'cancelled', 'entry', entry, 'error', why, 'type', job_type, 'lane', lane,
    'created_ms', created_ms, 'life', life, 'updated_ms', now)
  note(record, now, tonumber(elapsed_ms), outcome, worker, why)
end
conclude(ends, id, record, stream, lock, batch, is_owner)
-- A retention of 0 deletes the record.
retire(record, ledger, life, is_owner, now, retention_ms)
redis.call('ZREM', cancels, life)
redis.call('HDEL', places, life)
drop_offloaded(offloaded, life, record)
return settle(stream, entry, receipts, 'cancelled', 1)
