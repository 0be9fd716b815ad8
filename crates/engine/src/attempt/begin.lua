-- begin: may these attempts start? Called only for jobs that have a due or expiry time, a record, or an earlier attempt.
-- Each job has two keys: record, lock. not_before_ms, expires_at_ms: '' for none. keeps: '1' to keep a record.
-- is_repeated: '1' if an earlier attempt failed or was lost. unlocks: '1' if the start of the job's first attempt frees
-- its lock. letter_token: that of the entry's large fields, or ''.
-- returns {1, {an answer or an error for each job}}: 1 start, {1, ms} start, it expires after this long, 0 stale, 2 already
--   done by a late success, 3 expired, {4, ms} not due for this long, 5 its cancellation was requested
local stream, cancels, dead = unpack(KEYS, 1, 3)
local consumer, lane = unpack(ARGV, 1, 2)
local FIRST_KEY, KEYS_EACH = 4, 2
local now, has_requests = now_ms(), redis.pcall('ZCARD', cancels) ~= 0
return each_job(stream, consumer, FIRST_KEY, KEYS_EACH, function(held, entry, generation, key, first, last)
  local record, lock = unpack(KEYS, key, key + 1)
  local id, not_before_ms, expires_at_ms, keeps, job_type, created_ms, is_repeated, unlocks, letter_generation,
    letter_ms, letter_token = unpack(ARGV, first, last)
  if not held then return 0 end
  local is_owner, facts = false, nil
  -- Only a repeated attempt can have succeeded late; see is_done. Moving a letter changes nothing of what is read here.
  if is_repeated == '1' then
    facts = facts_of(record, generation, 'late:' .. generation, 'late')
    if facts.extra or facts.other == generation then return 2 end
  end
  if has_requests and is_unwanted(cancels, generation) then return 5 end
  if not_before_ms ~= '' and tonumber(not_before_ms) > now then return { 4, tonumber(not_before_ms) - now } end
  if letter_generation ~= '' or letter_ms ~= '' then move_letter(dead, record, letter_generation, letter_ms, letter_token) end
  if expires_at_ms ~= '' and tonumber(expires_at_ms) <= now then return 3 end
  if keeps == '1' then is_owner, facts = owns(record, generation, facts) end
  if is_owner then
    -- A job that left a waiting list may be in another lane than before.
    write_record(record, facts, job_type, lane, created_ms, generation, 'state', 'running', 'entry', entry, 'lane', lane)
    -- A record that says that this generation is retried has no TTL.
    local is_retried = facts.is_known and facts.state == 'retrying'
    if facts.state and not is_retried then redis.call('PERSIST', record) end
  end
  if unlocks == '1' and redis.call('GET', lock) == id then redis.call('DEL', lock) end
  return expires_at_ms == '' and 1 or { 1, tonumber(expires_at_ms) - now }
end)
