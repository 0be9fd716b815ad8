-- release: return one entry unchanged to the tail of its lane. It costs no attempt.
-- kept: the key of the new entry's large fields. elapsed_ms: 0 if its handler did not run. Then the fields, flat.
-- returns {1} released, {0} stale (another process settled this entry; nothing was changed), {2} already done: removed,
--   {3} its cancellation was requested: nothing was changed
local stream, record, cancels, receipts, offloaded, kept = unpack(KEYS)
local consumer, entry, life, elapsed_ms = unpack(ARGV, 1, 4)
local FIRST_FIELD = 5
local before = settled('release', stream, consumer, entry, receipts, record, life, offloaded)
if before then return before end
if is_unwanted(cancels, life) then return { 3 } end
must_be_offloaded(kept)
keep_offloaded(kept)
local told = redis.call('HMGET', record, 'life', 'state')
local released = must_append(stream, ARGV, FIRST_FIELD, #ARGV)
if offloaded ~= kept then drop_offloaded(offloaded, life, record) end
if is_passing(record, life) then
  redis.call('DEL', record)
elseif told[2] and told[2] ~= 'retrying' and (not told[1] or told[1] == life) then
  -- A retry that has not started keeps its state, so that a late success can still cancel it.
  redis.call('HSET', record, 'state', 'waiting', 'entry', released)
  if elapsed_ms ~= '0' then note(record, now_ms(), tonumber(elapsed_ms), 'interrupted', consumer, '') end
end
return settle(stream, entry, receipts, 'release', 1)
