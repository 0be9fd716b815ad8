-- beat: report that a worker is alive, and what it runs.
-- gone_ms: ms until it counts as gone. Then at most 100 fields, flat. The field beat_ms gets the server's clock.
-- returns {the server's clock in ms}
local key, gone_ms = KEYS[1], ARGV[1]
local FIRST_FIELD = 2
local now = now_ms()
-- Redis allows PERSIST even when it is out of memory, and then admits the HSET.
redis.call('PERSIST', key)
redis.call('HSET', key, 'beat_ms', ms_text(now), unpack(ARGV, FIRST_FIELD))
redis.call('PEXPIRE', key, gone_ms)
return { now }
