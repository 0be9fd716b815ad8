-- begin: may this attempt start? Called only for jobs that have a due or expiry time, a record, or an earlier attempt.
-- not_before_ms, expires_at_ms: '' for none. keeps: '1' to keep a record. is_repeated: '1' if an earlier attempt failed
-- or was lost. unlocks: '1' if the start of the job's first attempt frees its lock.
-- returns {1} start, {0} stale, {2} already done by a late success, {3} expired, {4, ms} not due for this long,
--   {5} its cancellation was requested
local stream, record, cancels, lock, dead = unpack(KEYS)
local consumer, entry, not_before_ms, expires_at_ms, keeps, job_type, lane, created_ms, is_repeated, id, unlocks, life,
  letter_life, letter_ms = unpack(ARGV)
if not hold(stream, consumer, entry) then return { 0 } end
if is_repeated == '1' and is_done(record, life) then return { 2 } end
if is_unwanted(cancels, life) then return { 5 } end
local now = now_ms()
if not_before_ms ~= '' and tonumber(not_before_ms) > now then return { 4, tonumber(not_before_ms) - now } end
if letter_life ~= '' or letter_ms ~= '' then move_letter(dead, record, letter_life, letter_ms) end
if expires_at_ms ~= '' and tonumber(expires_at_ms) <= now then return { 3 } end
if keeps == '1' and owns(record, life) then
  redis.call('HSET', record, 'state', 'running', 'entry', entry, 'worker', consumer, 'started_ms', now,
    'type', job_type, 'lane', lane, 'created_ms', created_ms, 'life', life, 'updated_ms', now)
  redis.call('PERSIST', record)
end
if unlocks == '1' and redis.call('GET', lock) == id then redis.call('DEL', lock) end
return { 1 }
