-- bury: move attempts to the dead stream.
-- Each job has six keys: record, lock, batch, ledger, offloaded, kept. kept: the key of the letter's large fields.
-- is_repeated: '0' if this was the first attempt of its generation. job_type: '' for bytes that are not a job. root: the first
-- generation of its series of replays, if it is another, or ''. told_steps: what its fields say about its steps, or ''. origin:
-- its own lane. Then its fields, flat.
-- returns {1, {an answer or an error for each job}}: 1 buried, 0 stale (another process settled this entry; nothing was
--   changed), 2 already done: removed, 3 its cancellation was requested: nothing was changed, 5 left for another call, because
--   this one has read many steps; never the first job
local stream, receipts, cancels, dead = unpack(KEYS, 1, 4)
local consumer, lane = unpack(ARGV, 1, 2)
local FIRST_KEY, KEYS_EACH, FIRST_FIELD = 5, 6, 17
local now, has_requests = now_ms(), redis.pcall('ZCARD', cancels) ~= 0
-- How many more steps this call may read. Only the ledger tells how many a job has, so the caller cannot weigh them.
local MOST_STEPS = 128
local steps_left = MOST_STEPS
-- What a replay must know about the steps if the ledger is gone: 'name=state name=state'.
local function steps(ledger, told_steps)
  if redis.call('HEXISTS', ledger, 'plan') == 0 then return told_steps end
  local known = {}
  local begun, planned = begun_steps(ledger)
  steps_left = steps_left - planned
  for _, step in ipairs(begun) do
    local name, kind, state = unpack(step)
    if state == 'started' then state = kind == 'once' and 'unknown' end
    if state then known[#known + 1] = name .. '=' .. state end
  end
  return table.concat(known, ' ')
end
return settle_each('bury', stream, receipts, consumer, FIRST_KEY, KEYS_EACH, function(held, entry, generation, key, first, last)
  local record, lock, batch, ledger, offloaded, kept = unpack(KEYS, key, key + 5)
  local id, is_repeated, reason, error_text, failures, elapsed_ms, outcome, worker, job_type, created_ms, fingerprint, ends,
    root, letter_generation, letter_ms, told_steps, origin = unpack(ARGV, first, first + FIRST_FIELD - 1)
  local before, what = settled('bury', stream, held, entry, receipts, record, generation, offloaded, is_repeated)
  if before then return before, what end
  if job_type ~= '' and has_requests and is_unwanted(cancels, generation) then return 3 end
  if steps_left < 1 and redis.call('HEXISTS', ledger, 'plan') == 1 then return 5 end
  must_be_offloaded(kept)
  keep_offloaded(kept)
  if letter_generation ~= '' or letter_ms ~= '' then
    move_letter(dead, record, letter_generation, letter_ms, name_in(offloaded, 'offloaded') or '')
  end
  local is_owner, facts = owns(record, generation)
  local first_failed = is_owner and facts.first_failed_ms or ms_text(now)
  local letter = {}
  for at = first + FIRST_FIELD, last do letter[#letter + 1] = ARGV[at] end
  local function add(name, value)
    if value ~= '' then add_pair(letter, name, value) end
  end
  add('dead_reason', reason)
  add('dead_kind', outcome)
  add_pair(letter, 'dead_error', error_text)
  add('dead_attempts', failures)
  add('dead_at_ms', ms_text(now))
  add('dead_first_failed_ms', first_failed)
  add('dead_worker', worker)
  add('dead_origin', origin)
  add('dead_life', generation)
  add('dead_root', root)
  add('dead_steps', steps(ledger, told_steps))
  local letter_id, group = write_letter(dead, letter, fingerprint, 1, now, job_type, reason, error_text, record)
  if type(letter_id) == 'table' then error(letter_id, 0) end
  if is_owner then
    write_record(record, facts, job_type, lane, created_ms, generation, 'state', 'dead', 'entry', entry, 'dead_id', letter_id,
      'error', error_text, 'first_failed_ms', first_failed,
      attempt_fields(facts.noted, now, tonumber(elapsed_ms), outcome, worker, error_text))
  end
  if journal_of(stream) then
    local attempts = is_owner and noted_attempts(record, facts.noted) or ''
    write_end(stream, { 'life', generation, 'id', id, 'type', job_type, 'lane', origin, 'state', 'dead', 'created_ms', created_ms,
      'ended_ms', ms_text(now), 'elapsed_ms', elapsed_ms, 'worker', worker, 'attempts', attempts, 'failures', failures, 'reason', reason,
      'error', error_text, 'fingerprint', fingerprint, 'root', root, 'letter', letter_id },
      needs_fields(stream, true) and cmsgpack.pack({ origin, unpack(letter) }) or '')
  end
  mark_letter(record, letter_id, generation, group, kept)
  leave_ledger(ledger, generation)
  if offloaded ~= kept then drop_offloaded(offloaded, generation, record) end
  finish_job(ends, id, record, stream, lock, batch, is_owner)
  return 1, 'end'
end)
