-- step_begin: may these runs of steps start? The ledger is written before the handler is called. If the same run asks
-- again, it gets the same answer.
-- Each job has one key: its ledger. is_unread: '1' if the caller has not read the ledger, because there should be none.
-- returns {1, {an answer or an error for each job}}: 1 start, 0 stale (another process settled this entry, or this run has
--   ended), 2 it may not run: the ledger says why (or must be read first), 3 a once step that another run started has
--   become unknown, 4 an attempt of another generation of this id runs it
local stream, consumer = KEYS[1], ARGV[1]
local FIRST_KEY, KEYS_EACH = 2, 1
local now = now_ms()
return each_job(stream, consumer, FIRST_KEY, KEYS_EACH, function(held, _, generation, key, first, last)
  local ledger = KEYS[key]
  local run, step, kind, plan, is_unread = unpack(ARGV, first, last)
  if not held then return 0 end
  local mark, changes = '@' .. generation, {}
  local reply = redis.call('HMGET', ledger, step .. ':state', step .. ':run', step .. ':life', step .. ':due', mark, 'lives',
    'v')
  -- Only this run itself may have written it.
  if is_unread == '1' and reply[7] and reply[2] ~= run then return 2 end
  local answer = begin_step(stream, ledger, reply, step, kind, run, generation, consumer, now, changes)
  if answer == 1 and changes[1] then add_pair(changes, 'plan', plan) end
  -- A generation that has begun steps, or waits for one, uses their ledger until it ends; see leave_ledger.
  if (answer == 1 or answer == 4) and not reply[5] then
    add_pair(changes, mark, text_after(reply[7]))
    add_pair(changes, 'lives', text_after(reply[6]))
  end
  if not changes[1] then return answer end
  add_pair(changes, 'v', text_after(reply[7]))
  redis.call('HSET', ledger, unpack(changes))
  -- The ledger of an earlier job of this id may be about to expire.
  if answer == 1 and reply[7] then redis.call('PERSIST', ledger) end
  return answer
end)
