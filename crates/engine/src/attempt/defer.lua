-- defer: move attempts to the delayed set.
-- Each job has three keys: record, offloaded, kept. kept: the key of the large fields of the pack, the packed fields.
-- is_repeated: '0' if this was the first attempt of its generation. state: 'retrying', which is noted in the record, or
-- 'scheduled', which is not. earliest_ms: the earliest due time or ''. keeps: '1' if the job has a record while it lives.
-- own_lane: the job's own lane, to which it returns; it may have left a waiting list through another.
-- returns {1, {an answer or an error for each job}}: 1 moved, 0 stale (another process settled this entry; nothing was
--   changed), 2 already done: removed, 3 its cancellation was requested: nothing was changed
local stream, receipts, cancels, delayed, packs, wake = unpack(KEYS, 1, 6)
local consumer, lane = unpack(ARGV, 1, 2)
local FIRST_KEY, KEYS_EACH = 7, 3
local now, has_requests = now_ms(), redis.pcall('ZCARD', cancels) ~= 0
-- Another generation may have the place of an id in the delayed set.
local ids, taken = value_of_each(3), {}
for nth, due in ipairs(redis.call('ZMSCORE', delayed, unpack(ids))) do taken[ids[nth]] = due end
-- Nothing is written if this fails.
redis.call('HEXISTS', packs, '')
local members, dues, parked_packs = {}, {}, {}
-- Two jobs of a call may have the same record. NOTHING is what a record that does not exist says.
local has_records, written, NOTHING = any_exists(FIRST_KEY, KEYS_EACH), {}, {}
-- The name of this generation in the delayed set: its id or, if another generation has that place, one of its own.
local function free_place(id, generation, entry)
  if not taken[id] then return id end
  local own = second_name(id, generation)
  return (taken[own] or redis.call('ZSCORE', delayed, own)) and second_name(id, entry) or own
end
-- Notes in its record that a job returns to its own lane, where the entry that it had means nothing.
local function go_to_own_lane(record, own_lane)
  if own_lane == lane then return end
  redis.call('HSET', record, 'lane', own_lane)
  redis.call('HDEL', record, 'entry')
end
local answers = settle_each('defer', stream, receipts, consumer, FIRST_KEY, KEYS_EACH, function(held, entry, generation, key, first, last)
  local record, offloaded, kept = unpack(KEYS, key, key + 2)
  local id, is_repeated, delay_ms, pack, state, elapsed_ms, outcome, worker, error_text, job_type, own_lane, created_ms,
    earliest_ms, keeps = unpack(ARGV, first, last)
  local before, what = settled('defer', stream, held, entry, receipts, record, generation, offloaded, is_repeated)
  if before then return before, what end
  if has_requests and is_unwanted(cancels, generation) then return 3 end
  must_be_offloaded(kept)
  keep_offloaded(kept)
  local is_there = has_records or written[record]
  local is_owner, facts = owns(record, generation, is_there and facts_of(record, generation) or NOTHING)
  local due = now + tonumber(delay_ms)
  if earliest_ms ~= '' then due = math.max(due, tonumber(earliest_ms)) end
  due = ms_text(due)
  local member = free_place(id, generation, entry)
  if state == 'retrying' and is_owner then
    written[record] = true
    write_record(record, facts, job_type, own_lane, created_ms, generation, 'state', 'retrying', 'entry', entry, 'due_ms', due,
      'error', error_text, 'member', member, 'first_failed_ms', facts.first_failed_ms or ms_text(now),
      attempt_fields(facts.noted, now, tonumber(elapsed_ms), outcome, worker, error_text))
    go_to_own_lane(record, own_lane)
    if facts.state then redis.call('PERSIST', record) end
  elseif state ~= 'retrying' and keeps == '0' and is_there and is_passing(record, generation) then
    redis.call('DEL', record)
  elseif is_owner and (keeps == '1' or is_there and redis.call('EXISTS', record) == 1) then
    written[record] = true
    -- A retry that has not started keeps its state, so that a late success can still cancel it.
    local shown = facts.is_known and facts.state == 'retrying' and 'retrying' or 'scheduled'
    write_record(record, facts, job_type, own_lane, created_ms, generation, 'state', shown, 'due_ms', due, 'member', member)
    go_to_own_lane(record, own_lane)
    if keeps == '1' and facts.state then redis.call('PERSIST', record) end
  end
  if offloaded ~= kept then drop_offloaded(offloaded, generation, record) end
  members[member], taken[member] = true, true
  add_pair(dues, due, member)
  add_pair(parked_packs, member, pack)
  return 1, 'end'
end, function()
  if not dues[1] then return end
  redis.call('HSET', packs, unpack(parked_packs))
  redis.call('ZADD', delayed, unpack(dues))
end)
if next(members) then nudge(delayed, wake, members) end
return answers
