-- beat: report that a worker is alive, and what it runs.
-- gone_ms: ms until it counts as gone. Then at most 100 fields, flat. The field beat_ms gets the server's clock.
-- returns {the server's clock in ms, since when it is asked to drain, '0' if it is asked to work, or '' if nobody has asked,
-- '1' if it ends once it runs nothing, who asked, why}
local key, gone_ms = KEYS[1], ARGV[1]
local FIRST_FIELD = 2
local now = now_ms()
-- Redis allows PERSIST even when it is out of memory, and then admits the HSET.
redis.call('PERSIST', key)
redis.call('HSET', key, 'beat_ms', ms_text(now), unpack(ARGV, FIRST_FIELD))
redis.call('PEXPIRE', key, gone_ms)
local asked = redis.call('HMGET', key, 'drain_since_ms', 'drain_exit', 'drain_by', 'drain_why')
return { now, asked[1] or '', asked[2] or '', asked[3] or '', asked[4] or '' }
