-- bury: move one attempt to the dead stream.
-- KEYS 1 stream  2 dead  3 record  4 lock  5 batch  6 cancels  7 ledger of its steps  8 receipts
--      9 the entry's offloaded fields  10 the letter's offloaded fields
-- ARGV 1 consumer  2 entry id  3 job id  4 reason  5 error  6 failures  7 elapsed ms  8 what failed
--      9 the consumer that ran it  10 type, or '' for bytes that are not a job  11 lane  12 created ms  13 fingerprint
--      14 what follows, see conclude  15 life  16 the first life of its series of replays, if it is another, or ''
--      17 the life that its fields say ended in a letter, or ''  18 when that letter was written, or ''
--      19 what its fields say about its steps, or ''  20.. fields, flat
-- returns {1} buried, {0} stale (another process settled this entry; nothing was changed), {2} already done: removed,
--   {3} its cancellation was requested: nothing was changed
local record, life, now = KEYS[3], ARGV[15], now_ms()
local before = settled('bury', KEYS[1], ARGV[1], ARGV[2], KEYS[8], record, life, KEYS[9])
if before then return before end
if ARGV[10] ~= '' and is_unwanted(KEYS[6], life) then return { 3 } end
must_be_offloaded(KEYS[10])
keep_offloaded(KEYS[10])
if ARGV[17] ~= '' or ARGV[18] ~= '' then move_letter(KEYS[2], record, ARGV[17], ARGV[18]) end
-- What a replay must know about the steps if the ledger is gone: 'name=state name=state'.
local function steps()
  if redis.call('HEXISTS', KEYS[7], 'plan') == 0 then return ARGV[19] end
  local known = {}
  for _, step in ipairs(begun_steps(KEYS[7])) do
    local name, kind, state = unpack(step)
    if state == 'started' then state = kind == 'once' and 'unknown' end
    if state then known[#known + 1] = name .. '=' .. state end
  end
  return table.concat(known, ' ')
end
local is_owner = owns(record, life)
local first = is_owner and redis.call('HGET', record, 'first_failed_ms') or string.format('%.0f', now)
local letter = {}
for at = 20, #ARGV do letter[at - 19] = ARGV[at] end
local function add(name, value)
  if value == '' then return end
  letter[#letter + 1] = name
  letter[#letter + 1] = value
end
add('dead_reason', ARGV[4])
add('dead_kind', ARGV[8])
letter[#letter + 1] = 'dead_error'
letter[#letter + 1] = ARGV[5]
add('dead_attempts', ARGV[6])
add('dead_at_ms', string.format('%.0f', now))
add('dead_first_failed_ms', first)
add('dead_worker', ARGV[9])
add('dead_origin', ARGV[11])
add('dead_fingerprint', ARGV[13])
add('dead_life', life)
add('dead_root', ARGV[16])
add('dead_steps', steps())
local id = must_append(KEYS[2], letter, 1, #letter)
if is_owner then
  redis.call('HSET', record, 'state', 'dead', 'entry', ARGV[2], 'dead_id', id, 'error', ARGV[5], 'type', ARGV[10],
    'lane', ARGV[11], 'created_ms', ARGV[12], 'life', life, 'first_failed_ms', first, 'updated_ms', now)
  note(record, now, tonumber(ARGV[7]), ARGV[8], ARGV[9], ARGV[5])
end
mark_letter(record, id, life)
leave_ledger(KEYS[7], life)
if KEYS[9] ~= KEYS[10] then drop_offloaded(KEYS[9], life, record) end
conclude(ARGV[14], ARGV[3], record, KEYS[1], KEYS[4], KEYS[5], is_owner)
return settle(KEYS[1], ARGV[2], KEYS[8], 'bury', 1)
