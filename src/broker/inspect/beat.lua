-- beat: report that a worker is alive, and what it runs.
-- KEYS 1 worker
-- ARGV 1 ms until it counts as gone  2.. fields, flat
-- returns {the server's clock in ms}
-- Redis allows PERSIST even when it is out of memory, and then admits the HSET.
redis.call('PERSIST', KEYS[1])
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return { now_ms() }
