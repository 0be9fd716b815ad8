-- step_end: note how a run of a step ended. The fence is the run, not the entry: even the report of a worker that was
-- given up in the meantime is true, as long as nobody has started the step again or decided about it.
-- due_in_ms: '' if it is not due again. kind, error_text, result: '' for none. dropped: why the handler dropped the whole
-- job, or ''.
-- returns {1, now ms} noted, {0, now ms} stale: another run or an operator came first, {2, now ms} noted late, for a step
--   that was considered unknown
local ledger = KEYS[1]
local step, run, new_state, attempts, due_in_ms, kind, error_text, result, dropped, life = unpack(ARGV)
local now = now_ms()
if redis.call('HGET', ledger, step .. ':run') ~= run then return { 0, now } end
local state = redis.call('HGET', ledger, step .. ':state')
if state ~= 'started' and (state ~= 'unknown' or new_state == 'unknown') then return { 1, now } end
-- Redis allows this even when it is out of memory, and then admits the other writes.
redis.call('HDEL', ledger, '')
redis.call('HSET', ledger, step .. ':state', new_state, step .. ':attempts', attempts, step .. ':since', now)
if due_in_ms ~= '' then redis.call('HSET', ledger, step .. ':due', string.format('%.0f', now + tonumber(due_in_ms))) end
if kind ~= '' then note_step(ledger, step, now, kind, error_text) end
if result ~= '' then redis.call('HSET', ledger, step .. ':result', result) end
-- The worker may die before the job is cancelled; this keeps later attempts of this life from running another step.
if dropped ~= '' then redis.call('HSET', ledger, 'dropped', life .. ' ' .. dropped) end
redis.call('HINCRBY', ledger, 'v', 1)
return { state == 'unknown' and 2 or 1, now }
