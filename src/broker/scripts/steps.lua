-- steps: the ledger of a job's steps, and whether the job is dead.
-- KEYS 1 ledger  2 record
-- returns {now ms, fields of the ledger flat, state in the record or '', id of the dead letter in the record or ''}
return {
  now_ms(), redis.call('HGETALL', KEYS[1]), redis.call('HGET', KEYS[2], 'state') or '',
  redis.call('HGET', KEYS[2], 'dead_id') or '',
}
