-- release: return one entry unchanged to the tail of its lane. It costs no attempt.
-- KEYS 1 stream  2 record  3 cancels  4 receipts  5 the entry's offloaded fields  6 the new entry's offloaded fields
-- ARGV 1 consumer  2 entry id  3 life  4 elapsed ms, 0 if its handler did not run  5.. fields, flat
-- returns {1} released, {0} stale (another process settled this entry; nothing was changed), {2} already done: removed,
--   {3} its cancellation was requested: nothing was changed
local record, life = KEYS[2], ARGV[3]
local before = settled('release', KEYS[1], ARGV[1], ARGV[2], KEYS[4], record, life, KEYS[5])
if before then return before end
if is_unwanted(KEYS[3], life) then return { 3 } end
must_be_offloaded(KEYS[6])
keep_offloaded(KEYS[6])
local told = redis.call('HMGET', record, 'life', 'state')
local entry = must_append(KEYS[1], ARGV, 5, #ARGV)
if KEYS[5] ~= KEYS[6] then drop_offloaded(KEYS[5], life, record) end
if is_passing(record, life) then
  redis.call('DEL', record)
elseif told[2] and told[2] ~= 'retrying' and (not told[1] or told[1] == life) then
  -- A retry that has not started keeps its state, so that a late success can still cancel it.
  redis.call('HSET', record, 'state', 'waiting', 'entry', entry)
  if ARGV[4] ~= '0' then note(record, now_ms(), tonumber(ARGV[4]), 'interrupted', ARGV[1], '') end
end
return settle(KEYS[1], ARGV[2], KEYS[4], 'release', 1)
