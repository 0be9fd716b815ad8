-- decide: write an operator's decision about a step, and do what follows from it for a dead job. It begins with the
-- write that a full Redis refuses, so it is refused as a whole. Without a step it only does what follows from a late
-- report.
-- stream: that of the job. location: the key that says, for kept_ms, which letter took the place of this one.
-- version, letter_id: the ledger's version, and the dead letter or '', that this is based on. step: '' for none. state: its
-- new one. follows: 'done', 'replay' or 'stay'. result: that of the step, or ''. action: the note for the audit, packed, or ''
-- for none. FIRST_RESTATED: only if the letter stays, and from now on gives another reason: its fingerprint, the ms of its
-- death, its type, its new reason, its error, how far its steps are, what it was before.
-- returns {1, unnoted} written, {2, unnoted, entry id} written and the job is replayed, {3, unnoted} written and the job is
--   done, {0} something has changed. unnoted: '' or why the audit does not have it
local ledger, record, dead, high, normal, low, lock, batch, stream, offloaded, location, audit = unpack(KEYS)
local version, letter_id, call, step, state, verdict, who, reason, follows, retention_ms, id, ends, kept_ms, result, action =
  unpack(ARGV, 1, 15)
local FIRST_RESTATED = 16
local now = now_ms()
if redis.call('HGET', ledger, 'call') == call then return { tonumber(redis.call('HGET', ledger, 'answer')), '' } end
if (redis.call('HGET', ledger, 'v') or '0') ~= version then return { 0 } end
local letter = nil
if letter_id ~= '' then
  letter = letter_at(dead, letter_id)
  if not letter or redis.call('HGET', record, 'dead_id') ~= letter_id then return { 0 } end
end
local answer = letter and (follows == 'done' and 3 or follows == 'replay' and 2) or 1
local is_restated = letter and answer == 1 and ARGV[FIRST_RESTATED]
if answer ~= 1 or is_restated then
  -- Nothing is written if one of these fails.
  must_end_letters(dead)
  redis.call('XLEN', stream)
end
if is_restated then
  local fingerprint, died_ms, job_type, death_reason, error_text, dead_steps, before = unpack(ARGV, FIRST_RESTATED)
  local as = { fingerprint, died_ms, job_type, death_reason, error_text }
  local others = { dead_reason = death_reason, dead_steps = dead_steps, dead_before = before }
  local fields = {}
  for at = 1, #letter[2], 2 do
    local name = letter[2][at]
    if not others[name] and name ~= 'dead_fingerprint' and name ~= 'dead_group' then
      add_pair(fields, name, letter[2][at + 1])
    end
  end
  for _, name in ipairs({ 'dead_reason', 'dead_steps', 'dead_before' }) do add_pair(fields, name, others[name]) end
  local restated = replace_letter(dead, record, letter, fields, as, offloaded)
  if type(restated) == 'table' then return restated end
  redis.call('SET', location, restated .. ' ' .. call, 'PX', kept_ms)
end
redis.call('HSET', ledger, 'call', call, 'answer', answer)
if step ~= '' then
  redis.call('HSET', ledger, step .. ':state', state, step .. ':since', now, step .. ':decision',
    string.format('%.0f ', now) .. verdict .. ' ' .. who .. ' ' .. reason)
  if result ~= '' then redis.call('HSET', ledger, step .. ':result', result) end
  -- No earlier run counts any more.
  redis.call('HDEL', ledger, step .. ':run', step .. ':due')
end
redis.call('HINCRBY', ledger, 'v', 1)
local unnoted = action == '' and '' or why_not_noted(audit, call, action)
if answer == 1 then return { 1, unnoted } end
if answer == 2 then return { 2, unnoted, (back_to_lane(dead, letter, record, { high, normal, low }, false)) } end
local facts = facts_of(record, '', 'type', 'lane')
redis.call('HSET', record, 'state', 'done', attempt_fields(facts.noted, now, 0, 'done', who, ''))
redis.call('HDEL', record, 'dead_id', 'children')
remove_letter(dead, letter)
drop_offloaded(offloaded, '')
unmark_letter(record, letter_id)
finish_job(ends, id, record, stream, lock, batch, true, redis.call('HGET', record, 'batches'))
if facts.generation and journal_of(stream) then
  write_end(stream, { 'life', facts.generation, 'id', id, 'type', facts.extra or '', 'lane', facts.other or '', 'state', 'done', 'created_ms',
    facts.created_ms or '', 'ended_ms', ms_text(now), 'worker', who, 'attempts', noted_attempts(record, facts.noted) }, '')
end
expire(record, now, retention_ms, ledger, facts_of(record))
count_last_end()
return { 3, unnoted }
