-- decide: write an operator's decision about a step, and do what follows from it for a dead job. It begins with the
-- write that a full Redis refuses, so it is refused as a whole. Without a step it only does what follows from a late
-- report.
-- KEYS 1 ledger  2 record  3 dead  4 stream high  5 stream normal  6 stream low  7 lock  8 batch  9 the job's stream
--      10 the letter's offloaded fields
-- ARGV 1 the ledger's version that this is based on  2 the dead letter that this is based on or ''  3 a name that
--      identifies this call if it is sent twice  4 step or ''  5 new state  6 verdict  7 who  8 reason  9 what follows: 'done',
--      'replay' or 'stay'  10 ms to keep what is done  11 job id  12 what a done job triggers, see conclude
-- returns {1} written, {2, entry id} written and the job is replayed, {3} written and the job is done, {0} something has changed
local ledger, record, now = KEYS[1], KEYS[2], now_ms()
if redis.call('HGET', ledger, 'call') == ARGV[3] then return { tonumber(redis.call('HGET', ledger, 'answer')), '' } end
if (redis.call('HGET', ledger, 'v') or '0') ~= ARGV[1] then return { 0 } end
local letter = nil
if ARGV[2] ~= '' then
  letter = redis.call('XRANGE', KEYS[3], ARGV[2], ARGV[2])[1]
  if not letter or redis.call('HGET', record, 'dead_id') ~= ARGV[2] then return { 0 } end
end
local follows = letter and ARGV[9] or 'stay'
local answer = follows == 'done' and 3 or follows == 'replay' and 2 or 1
redis.call('HSET', ledger, 'call', ARGV[3], 'answer', answer)
if ARGV[4] ~= '' then
  redis.call('HSET', ledger, ARGV[4] .. ':state', ARGV[5], ARGV[4] .. ':since', now, ARGV[4] .. ':decision',
    string.format('%.0f ', now) .. ARGV[6] .. ' ' .. ARGV[7] .. ' ' .. ARGV[8])
  -- No earlier run counts any more.
  redis.call('HDEL', ledger, ARGV[4] .. ':run', ARGV[4] .. ':due')
end
redis.call('HINCRBY', ledger, 'v', 1)
if answer == 1 then return { 1 } end
if answer == 2 then return { 2, back_to_lane(KEYS[3], letter, record, { KEYS[4], KEYS[5], KEYS[6] }, now, false) } end
redis.call('HSET', record, 'state', 'done', 'updated_ms', now)
redis.call('HDEL', record, 'dead_id')
note(record, now, 0, 'done', ARGV[7], '')
redis.call('XDEL', KEYS[3], ARGV[2])
drop_offloaded(KEYS[10], '')
unmark_letter(record, ARGV[2])
conclude(ARGV[12], ARGV[11], record, KEYS[9], KEYS[7], KEYS[8], true)
expire(record, now, ARGV[10], ledger)
return { 3 }
