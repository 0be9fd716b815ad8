-- complete: a job that keeps a record succeeded. If its entry was taken over meanwhile, the success is late: it cancels
-- the retry that has not started, and changes nothing otherwise.
-- KEYS 1 stream  2 delayed  3 delayed:fields  4 record  5 lock  6 batch  7 ledger of its steps
-- ARGV 1 consumer  2 entry id  3 job id  4 elapsed ms  5 result  6 ms to keep the record  7 type  8 lane  9 created ms
--      10 '1' to keep a record, 'forget' to delete it, '0' where there is none  11 what follows, see conclude
-- returns {1} done, {0} stale, {2} a late success cancelled the retry
local record, now = KEYS[4], now_ms()
local function done()
  redis.call('HSET', record, 'state', 'done', 'entry', ARGV[2], 'type', ARGV[7], 'lane', ARGV[8],
    'created_ms', ARGV[9], 'updated_ms', now)
  redis.call('HDEL', record, 'dead_id')
  if ARGV[5] ~= '' then redis.call('HSET', record, 'result', ARGV[5]) end
  note(record, now, tonumber(ARGV[4]), 'done', ARGV[1], '')
  expire(record, now, ARGV[6], KEYS[7])
  conclude(ARGV[11], ARGV[3], record, KEYS[1], KEYS[5], KEYS[6])
end
if hold(KEYS[1], ARGV[1], ARGV[2]) then
  if ARGV[10] ~= '0' then done() end
  if ARGV[10] == 'forget' then expire(record, now, 0) end
  settle(KEYS[1], ARGV[2])
  return { 1 }
end
if redis.call('HGET', record, 'state') ~= 'retrying' then return { 0 } end
if redis.call('HGET', record, 'created_ms') ~= ARGV[9] then return { 0 } end
done()
redis.call('HDEL', KEYS[3], ARGV[3])
-- Where the retry is already back in its stream, this mark keeps it from running; see is_done.
if redis.call('ZREM', KEYS[2], ARGV[3]) == 0 then redis.call('HSET', record, 'late', ARGV[9]) end
return { 2 }
