-- drop: delete one dead letter, and its job's record and ledger.
-- KEYS 1 dead  2 record  3 the ledger of its steps
-- ARGV 1 entry id of the dead letter
-- returns {1} dropped, {0} no such dead letter
if redis.call('XDEL', KEYS[1], ARGV[1]) == 0 then return { 0 } end
if redis.call('HGET', KEYS[2], 'dead_id') == ARGV[1] then redis.call('DEL', KEYS[2], KEYS[3]) end
return { 1 }
