-- release: return entries unchanged to the tail of their lane. It costs no attempt.
-- Each job has three keys: record, offloaded, kept. kept: the key of the new entry's large fields. is_repeated: '0' if
-- this was the first attempt of its life. elapsed_ms: 0 if its handler did not run. Then the fields, flat.
-- returns {1, {an answer or an error for each job}}: 1 released, 0 stale (another process settled this entry; nothing was
--   changed), 2 already done: removed, 3 its cancellation was requested: nothing was changed
local stream, receipts, cancels = unpack(KEYS, 1, 3)
local consumer = unpack(ARGV, 1, 1)
local FIRST_KEY, KEYS_EACH, FIRST_FIELD = 4, 3, 2
local now, has_requests = now_ms(), redis.pcall('ZCARD', cancels) ~= 0
return settle_each('release', stream, receipts, consumer, FIRST_KEY, KEYS_EACH, function(held, entry, life, key, first, last)
  local record, offloaded, kept = unpack(KEYS, key, key + 2)
  local is_repeated, elapsed_ms = unpack(ARGV, first, first + 1)
  local before, what = settled('release', stream, held, entry, receipts, record, life, offloaded, is_repeated)
  if before then return before, what end
  if has_requests and is_unwanted(cancels, life) then return 3 end
  must_be_offloaded(kept)
  keep_offloaded(kept)
  local told = redis.call('HMGET', record, 'life', 'state')
  local released = must_append(stream, ARGV, first + FIRST_FIELD, last)
  if offloaded ~= kept then drop_offloaded(offloaded, life, record) end
  if is_passing(record, life) then
    redis.call('DEL', record)
  elseif told[2] and told[2] ~= 'retrying' and (not told[1] or told[1] == life) then
    -- A retry that has not started keeps its state, so that a late success can still cancel it.
    redis.call('HSET', record, 'state', 'waiting', 'entry', released)
    if elapsed_ms ~= '0' then note(record, now, tonumber(elapsed_ms), 'interrupted', consumer, '') end
  end
  return 1, 'end'
end)
