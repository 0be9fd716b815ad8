-- cancelled: attempts ended because their jobs were cancelled, on request or by their handlers.
-- Each job has five keys: record, lock, batch, ledger, offloaded. is_repeated: '0' if this was the first attempt of its
-- generation. keeps: '1' if the job keeps a record. fields: those of the job, packed, or ''; see write_end.
-- returns {1, {an answer or an error for each job}}: 1 cancelled, 0 stale (another process settled this entry; nothing was
--   changed), 2 already done: removed
local stream, receipts, cancels, locations = unpack(KEYS, 1, 4)
local consumer, lane = unpack(ARGV, 1, 2)
local FIRST_KEY, KEYS_EACH = 5, 5
local now = now_ms()
return settle_each('cancelled', stream, receipts, consumer, FIRST_KEY, KEYS_EACH, function(held, entry, generation, key, first, last)
  local record, lock, batch, ledger, offloaded = unpack(KEYS, key, key + 4)
  local id, is_repeated, why, elapsed_ms, outcome, worker, job_type, created_ms, retention_ms, ends, keeps,
    fields = unpack(ARGV, first, last)
  local before, what = settled('cancelled', stream, held, entry, receipts, record, generation, offloaded, is_repeated)
  if before then return before, what end
  local is_owner, facts = owns(record, generation)
  if is_owner then
    -- The request says who made it, in case the record did not exist then.
    local who = string.match(redis.call('HGET', locations, generation) or '', '^%S+ %S+ (.+)$')
    if who then redis.call('HSET', record, 'cancelled_by', who) end
    write_record(record, facts, job_type, lane, created_ms, generation, 'state', 'cancelled', 'entry', entry, 'error', why,
      attempt_fields(facts.noted, now, tonumber(elapsed_ms), outcome, worker, why))
  end
  finish_job(ends, id, record, stream, lock, batch, is_owner)
  if keeps == '1' and journal_of(stream) then
    local attempts = is_owner and noted_attempts(record, facts.noted) or ''
    write_end(stream, { 'life', generation, 'id', id, 'type', job_type, 'lane', lane, 'state', 'cancelled', 'created_ms', created_ms,
      'ended_ms', ms_text(now), 'elapsed_ms', elapsed_ms, 'worker', worker, 'attempts', attempts, 'error', why }, needs_fields(stream, false) and fields or '')
  end
  -- A retention of 0 deletes the record.
  retire(record, ledger, generation, is_owner, now, retention_ms, facts)
  redis.call('ZREM', cancels, generation)
  redis.call('HDEL', locations, generation)
  drop_offloaded(offloaded, generation, record)
  return 1, 'end'
end)
