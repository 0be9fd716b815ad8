-- cancel: end a life of a job at once if no worker holds it; otherwise note the request. The worker that holds it
-- checks for such requests twice a second, and no later attempt of it starts.
-- KEYS 1 delayed  2 delayed:fields  3 record  4 cancels  5 stream of its entry  6 lock  7 batch  8 ledger of its steps
--      9 cancels:places  10 endings  11 the offloaded fields of the job that was found
-- ARGV 1 job id  2 its entry or ''  3 ms to keep the record  4 who requests it  5 type  6 lane  7 created ms or ''
--      8 what follows, see conclude  9 '1' to note the request even if its entry is not known
--      10 the life that was found, or '' if its fields name none
-- returns {1} cancelled, {2} the request is noted, {0} unknown job, {3, state} it has already ended, {4} it has moved
local now, record, life = now_ms(), KEYS[3], ARGV[10]
local function cancelled()
  -- Redis allows this even when it is out of memory, and then admits the other writes.
  redis.call('ZREM', KEYS[4], life)
  redis.call('HDEL', KEYS[9], life)
  local is_owner = owns(record, life)
  if is_owner then
    redis.call('HSET', record, 'state', 'cancelled', 'error', 'cancelled by ' .. ARGV[4], 'cancelled_by', ARGV[4],
      'updated_ms', now)
    if life ~= '' then redis.call('HSET', record, 'life', life) end
    if ARGV[5] ~= '' then redis.call('HSET', record, 'type', ARGV[5], 'lane', ARGV[6]) end
    if ARGV[7] ~= '' then redis.call('HSET', record, 'created_ms', ARGV[7]) end
  end
  conclude(ARGV[8], ARGV[1], record, KEYS[5], KEYS[6], KEYS[7], is_owner)
  retire(record, KEYS[8], life, is_owner, now, ARGV[3])
  drop_offloaded(KEYS[11], life, record)
  leave_word(KEYS[10], ARGV[1], ARGV[5], 'cancelled by ' .. ARGV[4])
end
local function wished(place)
  redis.call('ZREM', KEYS[4], life)
  redis.call('ZADD', KEYS[4], now, life)
  if place then redis.call('HSET', KEYS[9], life, place) end
  local told = redis.call('HMGET', record, 'life', 'state')
  if told[2] and (not told[1] or told[1] == life) then redis.call('HSET', record, 'cancelled_by', ARGV[4]) end
  return { 2 }
end
local member = parked(KEYS[1], KEYS[2], ARGV[1], life)
if not member and ARGV[2] == '' and redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  -- Fields that name no life were written by a producer.
  local pack = redis.call('HGET', KEYS[2], ARGV[1])
  if not pack or not life_of(pack) then member = ARGV[1] end
end
if member then
  cancelled()
  drop_offloaded(offloaded_by(redis.call('HGET', KEYS[2], member) or '', KEYS[1]), life, record)
  redis.call('ZREM', KEYS[1], member)
  redis.call('HDEL', KEYS[2], member)
  return { 1 }
end
if ARGV[2] ~= '' then
  local pending = redis.pcall('XPENDING', KEYS[5], 'fleet', ARGV[2], ARGV[2], 1)
  if not pending.err and #pending == 1 then return wished(ARGV[6] .. ' ' .. ARGV[2]) end
  if redis.call('XDEL', KEYS[5], ARGV[2]) == 1 then
    cancelled()
    return { 1 }
  end
end
local told = redis.call('HMGET', record, 'state', 'life')
if has_ended(told[1]) then return { 3, told[1] } end
if told[1] and ARGV[9] == '1' then
  if life == '' then life = told[2] or ARGV[1] end
  return wished()
end
return { told[1] and 4 or 0 }
