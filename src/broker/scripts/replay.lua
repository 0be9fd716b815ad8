-- replay: move one dead letter back to the lane it came from, as a new job with the old fields and id.
-- KEYS 1 dead  2 record  3 stream high  4 stream normal  5 stream low  6 the ledger of its steps
-- ARGV 1 entry id of the dead letter  2 '1' to run all its steps again, those that are done too
-- returns {1, entry id} replayed, {0} no such dead letter (somebody replayed or dropped it)
local found = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])[1]
if not found then return { 0 } end
local entry = back_to_lane(KEYS[1], found, KEYS[2], { KEYS[3], KEYS[4], KEYS[5] }, now_ms())
if ARGV[2] == '1' then redis.call('DEL', KEYS[6]) end
return { 1, entry }
