-- steps: the ledger of a job's steps, and whether the job is dead. If a generation was replayed after its ledger had gone,
-- its fields say what is known of the steps; that is written first.
-- told_steps: what the job's fields say about its steps: 'name=state name=state', or ''. plan: '' for none.
-- returns {now ms, fields of the ledger flat, state in the record or '', id of the dead letter in the record or ''}
local ledger, record = unpack(KEYS)
local told_steps, plan = unpack(ARGV)
if told_steps ~= '' then
  local is_new, found = redis.call('HSETNX', ledger, 'plan', plan) == 1, false
  for name, state in string.gmatch(told_steps, '([^ =]+)=(%S+)') do
    -- Another generation of the id may have a ledger, but know less: what is done stays done.
    if is_new or state == 'done' and redis.call('HGET', ledger, name .. ':state') ~= 'done' then
      redis.call('HSET', ledger, name .. ':state', state, name .. ':since', now_ms())
      found = true
    end
  end
  if is_new or found then redis.call('HINCRBY', ledger, 'v', 1) end
end
local reply = redis.call('HMGET', record, 'state', 'dead_id')
return { now_ms(), redis.call('HGETALL', ledger), reply[1] or '', reply[2] or '' }
