-- release: give one entry back unchanged, at the tail of its lane. No attempt is spent.
-- KEYS 1 stream  2 record
-- ARGV 1 consumer  2 entry id  3.. fields, flat
-- returns {1} released, {0} stale (somebody else settled this entry; nothing was changed)
if not hold(KEYS[1], ARGV[1], ARGV[2]) then return { 0 } end
redis.call('XADD', KEYS[1], '*', unpack(ARGV, 3))
if redis.call('EXISTS', KEYS[2]) == 1 then redis.call('HSET', KEYS[2], 'state', 'waiting') end
settle(KEYS[1], ARGV[2])
return { 1 }
