-- cancel: end a job that nobody runs, at once; of one that somebody runs, note that it is wanted to end. Whoever holds it
-- looks for that twice a second, and no later attempt of it starts.
-- KEYS 1 delayed  2 delayed:fields  3 record  4 cancels  5 stream of its entry  6 lock  7 batch  8 ledger of its steps
-- ARGV 1 job id  2 its entry or ''  3 ms to keep the record  4 who wants it  5 type  6 lane  7 created ms or ''
--      8 what follows, see conclude  9 '1' to note the wish even where its entry is not known
-- returns {1} cancelled, {2} the wish is noted, {0} not known, {3, state} it has ended already, {4} it is not where it was
local now, record = now_ms(), KEYS[3]
local function cancelled()
  -- Allowed when Redis is out of memory, and admits the rest.
  redis.call('ZREM', KEYS[4], ARGV[1])
  redis.call('HSET', record, 'state', 'cancelled', 'error', 'cancelled by ' .. ARGV[4], 'cancelled_by', ARGV[4],
    'updated_ms', now)
  if ARGV[5] ~= '' then redis.call('HSET', record, 'type', ARGV[5], 'lane', ARGV[6]) end
  if ARGV[7] ~= '' then redis.call('HSET', record, 'created_ms', ARGV[7]) end
  conclude(ARGV[8], ARGV[1], record, KEYS[5], KEYS[6], KEYS[7])
  expire(record, now, ARGV[3], KEYS[8])
end
local function wished()
  redis.call('ZREM', KEYS[4], ARGV[1])
  redis.call('ZADD', KEYS[4], now, ARGV[1])
  if redis.call('EXISTS', record) == 1 then redis.call('HSET', record, 'cancelled_by', ARGV[4]) end
  return { 2 }
end
if redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  cancelled()
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('HDEL', KEYS[2], ARGV[1])
  return { 1 }
end
if ARGV[2] ~= '' and #redis.call('XRANGE', KEYS[5], ARGV[2], ARGV[2]) == 1 then
  local pending = redis.pcall('XPENDING', KEYS[5], 'fleet', ARGV[2], ARGV[2], 1)
  if not pending.err and #pending == 1 then return wished() end
  cancelled()
  redis.call('XDEL', KEYS[5], ARGV[2])
  return { 1 }
end
local state = redis.call('HGET', record, 'state')
if state == 'done' or state == 'dead' or state == 'cancelled' then return { 3, state } end
if state and ARGV[9] == '1' then return wished() end
return { state and 4 or 0 }
