-- replay: move one dead letter back to the lane it came from, as a new life with the old fields and id.
-- letter: its entry id. all_steps: '1' to run all its steps again, even completed ones.
-- returns {1, entry id} replayed, {0, state} no such dead letter (somebody replayed or dropped it), and the job's state
--   according to its record, or ''
local dead, record, high, normal, low, ledger = unpack(KEYS)
local letter, all_steps, call = unpack(ARGV)
local found = letter_at(dead, letter)
if not found then
  local told = redis.call('HMGET', record, 'replayed', 'state')
  local by, entry = string.match(told[1] or '', '^(%S+) (%S+)$')
  if by == call then return { 1, entry } end
  return { 0, told[2] or '' }
end
local entry = back_to_lane(dead, found, record, { high, normal, low }, all_steps == '1')
if redis.call('EXISTS', record) == 1 then redis.call('HSET', record, 'replayed', call .. ' ' .. entry) end
if all_steps == '1' then redis.call('DEL', ledger) end
return { 1, entry }
