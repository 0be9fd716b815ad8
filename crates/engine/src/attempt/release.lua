-- release: return entries unchanged to the tail of their lane. It costs no attempt.
-- Each job has three keys: record, offloaded, kept. kept: the key of the new entry's large fields. is_repeated: '0' if
-- this was the first attempt of its generation. elapsed_ms: 0 if its handler did not run. keeps: '1' if the job has a record
-- while it lives. Then the fields, flat.
-- returns {1, {an answer or an error for each job}}: 1 released, 0 stale (another process settled this entry; nothing was
--   changed), 2 already done: removed, 3 its cancellation was requested: nothing was changed
local stream, receipts, cancels = unpack(KEYS, 1, 3)
local consumer, lane = unpack(ARGV, 1, 2)
local FIRST_KEY, KEYS_EACH, FIRST_FIELD = 4, 3, 5
local now, has_requests = now_ms(), redis.pcall('ZCARD', cancels) ~= 0
return settle_each('release', stream, receipts, consumer, FIRST_KEY, KEYS_EACH, function(held, entry, generation, key, first, last)
  local record, offloaded, kept = unpack(KEYS, key, key + 2)
  local is_repeated, elapsed_ms, keeps, job_type, created_ms = unpack(ARGV, first, first + FIRST_FIELD - 1)
  local before, what = settled('release', stream, held, entry, receipts, record, generation, offloaded, is_repeated)
  if before then return before, what end
  if has_requests and is_unwanted(cancels, generation) then return 3 end
  must_be_offloaded(kept)
  keep_offloaded(kept)
  local facts, is_owner = facts_of(record, generation), false
  local released = must_append(stream, ARGV, first + FIRST_FIELD, last)
  if offloaded ~= kept then drop_offloaded(offloaded, generation, record) end
  if keeps == '1' then
    is_owner = owns(record, generation, facts)
  elseif is_passing(record, generation) then
    redis.call('DEL', record)
  else
    is_owner = facts.state and (not facts.generation or facts.is_known)
  end
  -- A retry that has not started keeps its state, so that a late success can still cancel it.
  if is_owner and facts.state ~= 'retrying' then
    local function write(...)
      write_record(record, facts, job_type, lane, created_ms, generation, 'state', 'waiting', 'entry', released, ...)
    end
    if elapsed_ms == '0' then
      write()
    else
      write(attempt_fields(facts.noted, now, tonumber(elapsed_ms), 'interrupted', consumer, ''))
    end
    if keeps == '1' and facts.state then redis.call('PERSIST', record) end
  end
  return 1, 'end'
end)
