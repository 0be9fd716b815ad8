-- complete: jobs that keep a record succeeded. If another process has taken over an entry, its success is late: it
-- cancels the retry if that has not started, and changes nothing otherwise.
-- Each job has five keys: record, lock, batch, ledger, offloaded. result: '' for none. keeps: '1' to keep a record,
-- 'forget' to delete it, '0' if there is none. fields: those of the job, packed, or ''; see write_end.
-- returns {1, {an answer or an error for each job}}: 1 done, 0 stale, 2 a late success cancelled the retry, 4 not pending,
--   and no trace of this generation is left: a plain acknowledgement settled it, 5 left for another call, because this one has
--   reported to many batches; never the first job
local stream, receipts, delayed, packs = unpack(KEYS, 1, 4)
local consumer, lane = unpack(ARGV, 1, 2)
local FIRST_KEY, KEYS_EACH = 5, 5
local now, has_ledgers = now_ms(), any_exists(FIRST_KEY + 3, KEYS_EACH)
-- Two jobs of a call may have the same record.
local has_records, written = any_exists(FIRST_KEY, KEYS_EACH), {}
-- What a record that does not exist says.
local NOTHING = {}
local function read_facts(record, generation)
  if has_records or written[record] then return facts_of(record, generation, 'batches') end
  return NOTHING
end
-- To how many more batches this call may report. True if a job must wait for another call.
local MOST_REPORTS = 200
local reports_left = MOST_REPORTS
local function must_wait(batches)
  if not batches then return false end
  if reports_left < 1 then return true end
  local count = #cmsgpack.unpack(batches)
  if count > reports_left and reports_left < MOST_REPORTS then return true end
  reports_left = reports_left - count
  return false
end
local function done(record, facts, is_owner, generation, result, elapsed_ms, job_type, created_ms)
  if not is_owner then return end
  written[record] = true
  if result == '' then
    write_record(record, facts, job_type, lane, created_ms, generation, 'state', 'done',
      attempt_fields(facts.noted, now, tonumber(elapsed_ms), 'done', consumer, ''))
  else
    write_record(record, facts, job_type, lane, created_ms, generation, 'state', 'done', 'result', result,
      attempt_fields(facts.noted, now, tonumber(elapsed_ms), 'done', consumer, ''))
  end
  if facts.member or facts.dead_id then redis.call('HDEL', record, 'dead_id', 'member') end
end
local function note(record, facts, is_owner, generation, id, elapsed_ms, result, job_type, created_ms, fields)
  local attempts = is_owner and noted_attempts(record, facts.noted) or ''
  write_end(stream, { 'life', generation, 'id', id, 'type', job_type, 'lane', lane, 'state', 'done', 'created_ms', created_ms, 'ended_ms',
    ms_text(now), 'elapsed_ms', elapsed_ms, 'worker', consumer, 'attempts', attempts, 'result', result },
    needs_fields(stream, false) and fields or '')
end
return settle_each('complete', stream, receipts, consumer, FIRST_KEY, KEYS_EACH, function(held, entry, generation, key, first, last)
  local record, lock, batch, ledger, offloaded = unpack(KEYS, key, key + 4)
  if not has_ledgers then ledger = nil end
  local id, elapsed_ms, result, retention_ms, job_type, created_ms, keeps, ends, fields = unpack(ARGV, first, last)
  local is_noted = keeps == '1' and journal_of(stream)
  if held then
    if keeps == '0' then
      -- Nothing is known about it, but its type may name a job that follows.
      written[record] = true
      finish_job(ends, id, record, stream, lock, batch, false)
      drop_offloaded(offloaded, generation, record)
      return 1, 'end'
    end
    local facts = read_facts(record, generation)
    if must_wait(facts.extra) then return 5 end
    local is_owner
    is_owner, facts = owns(record, generation, facts)
    done(record, facts, is_owner, generation, result, elapsed_ms, job_type, created_ms)
    finish_job(ends, id, record, stream, lock, batch, is_owner, facts.extra)
    if is_noted then note(record, facts, is_owner, generation, id, elapsed_ms, result, job_type, created_ms, fields) end
    drop_offloaded(offloaded, generation, record)
    retire(record, ledger, generation, is_owner, now, keeps == 'forget' and '0' or retention_ms, facts)
    return 1, 'end'
  end
  local before = answer_before(receipts, stream, entry, 'complete')
  if before ~= 0 then return before end
  local facts = read_facts(record, generation)
  local is_owner = facts.is_known or not facts.generation and facts.created_ms == created_ms
  if is_owner and facts.state ~= 'retrying' then return 0 end
  -- If the record belongs to another generation, only the retry itself shows that this one continues.
  local member = parked(delayed, packs, id, generation)
  if not is_owner and not member then return redis.call('HEXISTS', record, 'dead:' .. generation) == 1 and 0 or 4 end
  if must_wait(facts.extra) then return 5 end
  done(record, facts, is_owner, generation, result, elapsed_ms, job_type, created_ms)
  finish_job(ends, id, record, stream, lock, batch, is_owner, facts.extra)
  if is_noted then note(record, facts, is_owner, generation, id, elapsed_ms, result, job_type, created_ms, fields) end
  retire(record, ledger, generation, is_owner, now, retention_ms, facts)
  if member then
    unpark(delayed, packs, member, generation, record)
    drop_offloaded(offloaded, generation, record)
  else
    -- The retry is already back in its stream. This mark keeps it from running, and the record stays until the retry
    -- arrives.
    redis.call('HSET', record, 'late:' .. generation, 1, 'expire_ms', kept_for(now, retention_ms, facts))
    hold_record(record)
  end
  return 2, 'keep'
end)
