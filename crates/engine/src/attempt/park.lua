-- park: move entries that may not start now to the tail of waiting lists, streams that nobody reads until somebody lets the jobs
-- out. It costs no attempt.
-- waitlists: waiting list to ms since when it has waiting jobs. locations: see note_location. Each job has four keys: record, offloaded,
-- kept, waitlist. kept: the key of the new entry's large fields. is_repeated: '0' if this was the first attempt of its generation.
-- keeps: '1' if the job has a record while it lives. name: that of the waiting list. Then the fields, flat.
-- returns {1, {an answer or an error for each job}}: 1 parked, 0 stale (another process settled this entry; nothing was
--   changed), 2 already done: removed, 3 its cancellation was requested: nothing was changed
local stream, receipts, cancels, waitlists, locations = unpack(KEYS, 1, 5)
local consumer, lane = unpack(ARGV, 1, 2)
local FIRST_KEY, KEYS_EACH, FIRST_FIELD = 6, 4, 6
local now, has_requests = now_ms(), redis.pcall('ZCARD', cancels) ~= 0
-- Nothing is written if one of these fails.
redis.call('HEXISTS', waitlists, '')
redis.call('HEXISTS', locations, '')
return settle_each('park', stream, receipts, consumer, FIRST_KEY, KEYS_EACH, function(held, entry, generation, key, first, last)
  local record, offloaded, kept, waitlist = unpack(KEYS, key, key + 3)
  local id, is_repeated, keeps, job_type, created_ms, name = unpack(ARGV, first, first + FIRST_FIELD - 1)
  local before, what = settled('park', stream, held, entry, receipts, record, generation, offloaded, is_repeated)
  if before then return before, what end
  if has_requests and is_unwanted(cancels, generation) then return 3 end
  local length = redis.pcall('XLEN', waitlist)
  -- The caller tells by the last words that it is not this job.
  if type(length) == 'table' then error({ err = length.err .. ' (the waiting list)' }) end
  must_be_offloaded(kept)
  keep_offloaded(kept)
  local facts, is_owner = facts_of(record, generation), false
  local parked = must_append(waitlist, ARGV, first + FIRST_FIELD, last)
  redis.call('HSETNX', waitlists, name, ms_text(now))
  note_location(locations, id, generation, parked, name)
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
    write_record(record, facts, job_type, lane, created_ms, generation, 'state', 'waiting', 'entry', parked)
    if keeps == '1' and facts.state then redis.call('PERSIST', record) end
  end
  return 1, 'end'
end)
