-- rules: the rules of a queue's gates. Their number is bounded; see rule_put.
-- returns {revision or 0, now ms, {field, value, ...}}
local gates = KEYS[1]
local revision = redis.call('HGET', gates, '@rev')
return { tonumber(revision or 0), now_ms(), redis.call('HGETALL', gates) }
