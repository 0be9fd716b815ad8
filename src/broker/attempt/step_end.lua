-- step_end: note how a run of a step ended. The fence is the run, not the entry: even the report of a worker that was
-- given up in the meantime is true, as long as nobody has started the step again or decided about it.
-- KEYS 1 ledger
-- ARGV 1 step  2 run  3 new state  4 attempts  5 ms until it is due or ''  6 kind of error or ''  7 error  8 result or ''
--      9 why the handler dropped the whole job, or ''  10 the job's life
-- returns {1, now ms} noted, {0, now ms} stale: another run or an operator came first, {2, now ms} noted late, for a step
--   that was considered unknown
local ledger, step, now = KEYS[1], ARGV[1], now_ms()
if redis.call('HGET', ledger, step .. ':run') ~= ARGV[2] then return { 0, now } end
local state = redis.call('HGET', ledger, step .. ':state')
if state ~= 'started' and (state ~= 'unknown' or ARGV[3] == 'unknown') then return { 1, now } end
-- Redis allows this even when it is out of memory, and then admits the other writes.
redis.call('HDEL', ledger, '')
redis.call('HSET', ledger, step .. ':state', ARGV[3], step .. ':attempts', ARGV[4], step .. ':since', now)
if ARGV[5] ~= '' then redis.call('HSET', ledger, step .. ':due', string.format('%.0f', now + tonumber(ARGV[5]))) end
if ARGV[6] ~= '' then note_step(ledger, step, now, ARGV[6], ARGV[7]) end
if ARGV[8] ~= '' then redis.call('HSET', ledger, step .. ':result', ARGV[8]) end
-- The worker may die before the job is cancelled; this keeps later attempts of this life from running another step.
if ARGV[9] ~= '' then redis.call('HSET', ledger, 'dropped', ARGV[10] .. ' ' .. ARGV[9]) end
redis.call('HINCRBY', ledger, 'v', 1)
return { state == 'unknown' and 2 or 1, now }
