-- type_stats: the statistics of the types of ten minutes or of an hour. Their number is bounded; see tally.
-- returns {now ms, {type, packed list, ...}}
local bucket = KEYS[1]
return { now_ms(), redis.call('HGETALL', bucket) }
