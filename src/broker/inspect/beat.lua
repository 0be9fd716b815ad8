-- beat: report that a worker is alive, and what it runs.
-- gone_ms: ms until it counts as gone. Then fields, flat.
-- returns {the server's clock in ms}
local key, gone_ms = KEYS[1], ARGV[1]
local FIRST_FIELD = 2
-- Redis allows PERSIST even when it is out of memory, and then admits the HSET.
redis.call('PERSIST', key)
redis.call('HSET', key, unpack(ARGV, FIRST_FIELD))
redis.call('PEXPIRE', key, gone_ms)
return { now_ms() }
