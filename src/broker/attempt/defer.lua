-- defer: move attempts to the delayed set.
-- Each job has three keys: record, offloaded, kept. kept: the key of the large fields of the pack, the packed fields.
-- is_repeated: '0' if this was the first attempt of its life. state: 'retrying', which is noted in the record, or
-- 'scheduled', which is not. earliest_ms: the earliest due time or ''. stamps: '1' to write the current time over the
-- last 13 bytes of the pack.
-- returns {1, {an answer or an error for each job}}: 1 moved, 0 stale (another process settled this entry; nothing was
--   changed), 2 already done: removed, 3 its cancellation was requested: nothing was changed
local stream, receipts, cancels, delayed, packs, wake = unpack(KEYS, 1, 6)
local consumer, lane = unpack(ARGV, 1, 2)
local FIRST_KEY, KEYS_EACH = 7, 3
local now, has_requests, members = now_ms(), redis.pcall('ZCARD', cancels) ~= 0, {}
local answers = settle_each('defer', stream, receipts, consumer, FIRST_KEY, KEYS_EACH, function(held, entry, life, key, first, last)
  local record, offloaded, kept = unpack(KEYS, key, key + 2)
  local id, is_repeated, delay_ms, pack, state, elapsed_ms, outcome, worker, error_text, job_type, created_ms, earliest_ms,
    stamps = unpack(ARGV, first, last)
  local before, what = settled('defer', stream, held, entry, receipts, record, life, offloaded, is_repeated)
  if before then return before, what end
  if has_requests and is_unwanted(cancels, life) then return 3 end
  must_be_offloaded(kept)
  keep_offloaded(kept)
  local is_owner, noted, first_failed_ms = owns(record, life)
  local due = now + tonumber(delay_ms)
  if earliest_ms ~= '' then due = math.max(due, tonumber(earliest_ms)) end
  if stamps == '1' then pack = string.sub(pack, 1, -14) .. string.format('%013.0f', now) end
  local member = park(delayed, packs, id, life, entry, due, pack)
  if state == 'retrying' and is_owner then
    redis.call('HSET', record, 'state', 'retrying', 'entry', entry, 'due_ms', due, 'error', error_text,
      'type', job_type, 'lane', lane, 'created_ms', created_ms, 'life', life, 'member', member, 'updated_ms', now,
      'first_failed_ms', first_failed_ms or now,
      attempt_fields(noted, now, tonumber(elapsed_ms), outcome, worker, error_text))
    redis.call('PERSIST', record)
  elseif state ~= 'retrying' and is_passing(record, life) then
    redis.call('DEL', record)
  elseif is_owner and redis.call('EXISTS', record) == 1 then
    redis.call('HSET', record, 'state', 'scheduled', 'due_ms', due, 'life', life, 'member', member, 'updated_ms', now)
  end
  if offloaded ~= kept then drop_offloaded(offloaded, life, record) end
  if member then members[member] = true end
  return 1, 'end'
end)
if next(members) then nudge(delayed, wake, members) end
return answers
