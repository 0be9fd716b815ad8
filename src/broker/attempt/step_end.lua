-- step_end: note how runs of steps ended, and whether another step of the job may start, if one is named. The fence of the
-- end is the run, not the entry: even the report of a worker that was given up in the meantime is true, as long as nobody has
-- started the step again or decided about it. The fence of the start is the entry, as in step_begin.
-- Each job has one key: its ledger. due_in_ms: '' if it is not due again. kind, error_text, result: '' for none. dropped: why
-- the handler dropped the whole job, or ''. other, other_kind: the step that the same run starts next, or ''. It has begun a
-- step before, so the ledger has its plan, and stays. If the same run says all this again, it gets the same answer.
-- returns {1, {an answer or an error for each job}}: {1, now ms, begun} noted, {0, now ms, -1} stale: another run or an
--   operator came first, {2, now ms, -1} noted late, for a step that was considered unknown. begun: what step_begin would
--   answer about the other step, or -1: ask it
local stream = unpack(KEYS, 1, 1)
local consumer, lane = unpack(ARGV, 1, 2)
local FIRST_KEY = 2
local now, at, most = now_ms(), FIRST_JOB_AT, #ARGV
local jobs, starting, held, answers = {}, {}, {}, {}
-- What a ledger says about the run that ended.
local function read(ledger, step)
  return redis.pcall('HMGET', ledger, step .. ':run', step .. ':state', 'v')
end
while at <= most do
  local last = at + tonumber(ARGV[at])
  local entry, _, step, run = unpack(ARGV, at + 1, at + 4)
  local ledger = KEYS[FIRST_KEY + #jobs]
  local told = read(ledger, step)
  jobs[#jobs + 1] = { ledger, told, at + 1, last }
  local other = ARGV[last - 1]
  if other ~= '' and told[1] == run and told[2] ~= 'unknown' then starting[#starting + 1] = entry end
  at = last + 1
end
-- The ends are noted even if the lane cannot be read.
local asked = true
if starting[1] then asked, held = pcall(hold_all, stream, consumer, starting) end
-- Two jobs of a call may have the same ledger.
local written = {}
local function note(ledger, told, first, last)
  local entry, life, step, run, new_state, attempts, due_in_ms, kind, error_text, result, dropped, other, other_kind =
    unpack(ARGV, first, last)
  if written[ledger] then told = read(ledger, step) end
  if told.err then error(told) end
  if told[1] ~= run then return { 0, now, -1 } end
  local state, changes, begun = told[2], {}, -1
  local is_new = state == 'started' or state == 'unknown' and new_state ~= 'unknown'
  if other ~= '' and state ~= 'unknown' and asked then
    begun = 0
    if held[entry] then
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
    written[ledger] = true
    add_pair(changes, 'v', string.format('%d', tonumber(told[3] or '0') + 1))
    redis.call('HSET', ledger, unpack(changes))
  end
  return { is_new and state == 'unknown' and 2 or 1, now, begun }
end
for nth, job in ipairs(jobs) do answers[nth] = answer_of(note, unpack(job)) end
return { 1, answers }
