-- incidents: the incidents that are not over, and what is known about each. Their number is bounded; see incident_put.
-- returns {now ms, {id, incident, ...}, {id, acknowledgment, ...}, {id and sink, what it has got, ...}, {queue, up to when
--   it has been checked, ...}}
local open, acks, told, seen = unpack(KEYS)
return {
  now_ms(), redis.call('HGETALL', open), redis.call('HGETALL', acks), redis.call('HGETALL', told),
  redis.call('HGETALL', seen),
}
