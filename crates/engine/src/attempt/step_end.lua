-- step_end: note how runs of steps ended, and whether other steps may start. The fence of an end is the run, not the entry:
-- even the report of a worker that was given up in the meantime is true, as long as nobody has started the step again or
-- decided about it. The fence of a start is the entry, as in step_begin.
-- Each job has one key: its ledger. due_in_ms: '' if the step is not due again. kind, error_text, result: '' for none.
-- dropped: why the handler dropped the whole job, or ''. other, other_kind: the step that the same run starts next, or
-- ''. It has begun a step before, so the ledger has its plan, and stays. A job that names none has NO_ENTRY for its entry,
-- so that its report does not claim the entry from its owner. If the same run says all this again, it gets the same answer.
-- returns {1, {an answer or an error for each job}}: {1, now ms, begun} noted, {0, now ms, -1} stale: another run or an
--   operator came first, {2, now ms, -1} noted late, for a step that was considered unknown. begun: what step_begin would
--   answer about the other step, or -1: ask it
local stream, consumer = KEYS[1], ARGV[1]
local FIRST_KEY, KEYS_EACH, NEEDS_NO_LANE = 2, 1, true
local now = now_ms()
return each_job(stream, consumer, FIRST_KEY, KEYS_EACH, function(held, _, generation, key, first, last)
  local ledger = KEYS[key]
  local step, run, new_state, attempts, due_in_ms, kind, error_text, result, dropped, other, other_kind =
    unpack(ARGV, first, last)
  -- What begin_step wants to know about the other step comes first.
  local reply = redis.call('HMGET', ledger, other .. ':state', other .. ':run', other .. ':life', other .. ':due',
    step .. ':state', step .. ':run', 'v')
  if reply[6] ~= run then return { 0, now, -1 } end
  local state, changes, begun = reply[5], {}, -1
  local is_new = state == 'started' or state == 'unknown' and new_state ~= 'unknown'
  if other ~= '' and state ~= 'unknown' then
    if held then
      begun = begin_step(stream, ledger, reply, other, other_kind, run, generation, consumer, now, changes)
    elseif held == false then
      begun = 0
    end
  end
  if is_new then
    add_pair(changes, step .. ':state', new_state)
    add_pair(changes, step .. ':attempts', attempts)
    add_pair(changes, step .. ':since', ms_text(now))
    add_pair(changes, step .. ':v', text_after(reply[7]))
    if due_in_ms ~= '' then add_pair(changes, step .. ':due', ms_text(now + tonumber(due_in_ms))) end
    if result ~= '' then add_pair(changes, step .. ':result', result) end
    -- The worker may die before the job is cancelled; this keeps later attempts of this generation from running another step.
    if dropped ~= '' then add_pair(changes, 'dropped', generation .. ' ' .. dropped) end
    if kind ~= '' then note_step(ledger, step, now, kind, error_text) end
  end
  if changes[1] then
    add_pair(changes, 'v', text_after(reply[7]))
    redis.call('HSET', ledger, unpack(changes))
  end
  return { is_new and state == 'unknown' and 2 or 1, now, begun }
end, NEEDS_NO_LANE)
