-- step_end: note how a run of a step ended, and whether another step may start, if one is named. The fence of the end is
-- the run, not the entry: even the report of a worker that was given up in the meantime is true, as long as nobody has
-- started the step again or decided about it. The fence of the start is the entry, as in step_begin.
-- due_in_ms: '' if it is not due again. kind, error_text, result: '' for none. dropped: why the handler dropped the whole
-- job, or ''. other, other_kind: the step that the same run starts next, or ''. It has begun a step before, so the ledger has
-- its plan, and stays. If the same run says all this again, it gets the same answer.
-- returns {1, now ms, begun} noted, {0, now ms, -1} stale: another run or an operator came first, {2, now ms, -1} noted
--   late, for a step that was considered unknown. begun: what step_begin would answer about the other step, or -1: ask it
local ledger, stream = unpack(KEYS)
local step, run, new_state, attempts, due_in_ms, kind, error_text, result, dropped, life, other, other_kind, consumer,
  entry = unpack(ARGV)
local now = now_ms()
local told = redis.call('HMGET', ledger, step .. ':run', step .. ':state', 'v')
if told[1] ~= run then return { 0, now, -1 } end
local state, changes, begun = told[2], {}, -1
local is_new = state == 'started' or state == 'unknown' and new_state ~= 'unknown'
if other ~= '' and state ~= 'unknown' then
  -- The end is noted even if the lane cannot be read.
  local asked, held = pcall(hold, stream, consumer, entry)
  if asked then begun = 0 end
  if asked and held then
    local known = redis.call('HMGET', ledger, other .. ':state', other .. ':run', other .. ':life', other .. ':due')
    begun = begin_step(ledger, known, other, other_kind, run, life, consumer, now, changes)
  end
end
if is_new then
  -- Redis allows this even when it is out of memory, and then admits the other writes. So it does with the fence.
  if begun == -1 then redis.call('HDEL', ledger, '') end
  add_pair(changes, step .. ':state', new_state)
  add_pair(changes, step .. ':attempts', attempts)
  add_pair(changes, step .. ':since', ms_text(now))
  if due_in_ms ~= '' then add_pair(changes, step .. ':due', ms_text(now + tonumber(due_in_ms))) end
  if result ~= '' then add_pair(changes, step .. ':result', result) end
  -- The worker may die before the job is cancelled; this keeps later attempts of this life from running another step.
  if dropped ~= '' then add_pair(changes, 'dropped', life .. ' ' .. dropped) end
  if kind ~= '' then note_step(ledger, step, now, kind, error_text) end
end
if changes[1] then
  add_pair(changes, 'v', string.format('%d', tonumber(told[3] or '0') + 1))
  redis.call('HSET', ledger, unpack(changes))
end
return { is_new and state == 'unknown' and 2 or 1, now, begun }
