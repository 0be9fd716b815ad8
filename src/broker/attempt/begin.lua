-- begin: may this attempt start? Called only for jobs that have a due or expiry time, a record, or an earlier attempt.
-- KEYS 1 stream  2 record  3 cancels  4 lock  5 dead
-- ARGV 1 consumer  2 entry id  3 not before, ms or ''  4 expires at, ms or ''  5 '1' to keep a record  6 type  7 lane
--      8 created ms  9 '1' if an earlier attempt failed or was lost  10 job id  11 '1' if the
--      start of its first attempt frees its lock  12 life  13 the life that its fields say ended in a letter, or ''
--      14 when that letter was written, or ''
-- returns {1} start, {0} stale, {2} already done by a late success, {3} expired, {4, ms} not due for this long,
--   {5} its cancellation was requested
if not hold(KEYS[1], ARGV[1], ARGV[2]) then return { 0 } end
local life = ARGV[12]
if ARGV[9] == '1' and is_done(KEYS[2], life) then return { 2 } end
if is_unwanted(KEYS[3], life) then return { 5 } end
local now = now_ms()
if ARGV[3] ~= '' and tonumber(ARGV[3]) > now then return { 4, tonumber(ARGV[3]) - now } end
if ARGV[13] ~= '' or ARGV[14] ~= '' then move_letter(KEYS[5], KEYS[2], ARGV[13], ARGV[14]) end
if ARGV[4] ~= '' and tonumber(ARGV[4]) <= now then return { 3 } end
if ARGV[5] == '1' and owns(KEYS[2], life) then
  redis.call('HSET', KEYS[2], 'state', 'running', 'entry', ARGV[2], 'worker', ARGV[1], 'started_ms', now,
    'type', ARGV[6], 'lane', ARGV[7], 'created_ms', ARGV[8], 'life', life, 'updated_ms', now)
  redis.call('PERSIST', KEYS[2])
end
if ARGV[11] == '1' and redis.call('GET', KEYS[4]) == ARGV[10] then redis.call('DEL', KEYS[4]) end
return { 1 }
