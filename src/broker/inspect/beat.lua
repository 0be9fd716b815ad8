-- beat: say that a worker lives, and what it runs.
-- KEYS 1 worker
-- ARGV 1 ms until it counts as gone  2.. fields, flat
-- returns {the server's clock in ms}
-- Allowed when Redis is out of memory, and admits the HSET behind it.
redis.call('PERSIST', KEYS[1])
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return { now_ms() }
