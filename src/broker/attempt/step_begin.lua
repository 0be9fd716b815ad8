-- step_begin: may this run of a step start? The ledger is written before the handler is called. If the same run asks
-- again, it gets the same answer.
-- KEYS 1 stream  2 ledger
-- ARGV 1 consumer  2 entry id  3 run  4 step  5 kind  6 the job's life  7 plan
-- returns {1, now ms} start, {0} stale (another process settled this entry), {2} it may not run: the ledger says why,
--   {3} a once step that another run started has become unknown
if not hold(KEYS[1], ARGV[1], ARGV[2]) then return { 0 } end
local ledger, step, now = KEYS[2], ARGV[4], now_ms()
local state = redis.call('HGET', ledger, step .. ':state') or 'pending'
if state == 'started' and redis.call('HGET', ledger, step .. ':run') == ARGV[3] then return { 1, now } end
if state == 'done' or state == 'given_up' then return { 2 } end
if ARGV[5] == 'once' and state == 'started' then
  redis.call('HSET', ledger, step .. ':state', 'unknown', step .. ':since', now)
  redis.call('HINCRBY', ledger, step .. ':attempts', 1)
  note_step(ledger, step, now, 'lost',
    'no word from ' .. (redis.call('HGET', ledger, step .. ':worker') or '-') .. ', which had started it')
  redis.call('HINCRBY', ledger, 'v', 1)
  return { 3 }
end
if ARGV[5] == 'once' and state ~= 'pending' then return { 2 } end
if ARGV[5] == 'auto' and redis.call('HGET', ledger, step .. ':life') ~= ARGV[6] then
  redis.call('HSET', ledger, step .. ':attempts', 0)
end
redis.call('HSET', ledger, step .. ':state', 'started', step .. ':run', ARGV[3], step .. ':worker', ARGV[1],
  step .. ':since', now, step .. ':life', ARGV[6], 'plan', ARGV[7])
redis.call('HDEL', ledger, step .. ':due')
redis.call('HINCRBY', ledger, 'v', 1)
-- The ledger of an earlier job of this id may be about to expire.
use_ledger(ledger, ARGV[6])
return { 1, now }
