-- step_begin: may this run of a step start? The ledger is written before the handler is called. If the same run asks
-- again, it gets the same answer.
-- returns {1, now ms} start, {0} stale (another process settled this entry), {2} it may not run: the ledger says why,
--   {3} a once step that another run started has become unknown
local stream, ledger = unpack(KEYS)
local consumer, entry, run, step, kind, life, plan = unpack(ARGV)
if not hold(stream, consumer, entry) then return { 0 } end
local now = now_ms()
local state = redis.call('HGET', ledger, step .. ':state') or 'pending'
if state == 'started' and redis.call('HGET', ledger, step .. ':run') == run then return { 1, now } end
if state == 'done' or state == 'given_up' then return { 2 } end
if kind == 'once' and state == 'started' then
  redis.call('HSET', ledger, step .. ':state', 'unknown', step .. ':since', now)
  redis.call('HINCRBY', ledger, step .. ':attempts', 1)
  note_step(ledger, step, now, 'lost',
    'no word from ' .. (redis.call('HGET', ledger, step .. ':worker') or '-') .. ', which had started it')
  redis.call('HINCRBY', ledger, 'v', 1)
  return { 3 }
end
if kind == 'once' and state ~= 'pending' then return { 2 } end
if kind == 'auto' and redis.call('HGET', ledger, step .. ':life') ~= life then
  redis.call('HSET', ledger, step .. ':attempts', 0)
end
redis.call('HSET', ledger, step .. ':state', 'started', step .. ':run', run, step .. ':worker', consumer,
  step .. ':since', now, step .. ':life', life, 'plan', plan)
redis.call('HDEL', ledger, step .. ':due')
redis.call('HINCRBY', ledger, 'v', 1)
-- The ledger of an earlier job of this id may be about to expire.
use_ledger(ledger, life)
return { 1, now }
