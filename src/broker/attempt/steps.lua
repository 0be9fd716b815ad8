-- steps: the ledger of a job's steps, and whether the job is dead. If a life was replayed after its ledger had gone,
-- its fields say what is known of the steps; that is written first.
-- KEYS 1 ledger  2 record
-- ARGV 1 what the job's fields say about its steps: 'name=state name=state', or ''  2 plan, or ''
-- returns {now ms, fields of the ledger flat, state in the record or '', id of the dead letter in the record or ''}
if ARGV[1] ~= '' and redis.call('HEXISTS', KEYS[1], 'plan') == 0 then
  redis.call('HSET', KEYS[1], 'plan', ARGV[2])
  for name, state in string.gmatch(ARGV[1], '([^ =]+)=(%S+)') do
    redis.call('HSET', KEYS[1], name .. ':state', state, name .. ':since', now_ms())
  end
  redis.call('HINCRBY', KEYS[1], 'v', 1)
end
return {
  now_ms(), redis.call('HGETALL', KEYS[1]), redis.call('HGET', KEYS[2], 'state') or '',
  redis.call('HGET', KEYS[2], 'dead_id') or '',
}
