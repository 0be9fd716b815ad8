-- replay: move one dead letter back to the lane it came from, as a new generation with the old fields and id.
-- letter: its entry id. all_steps: '1' to run all its steps again, even completed ones.
-- returns {1, entry id} replayed, also if this call did it before; {0, state} no such dead letter (somebody replayed or
--   dropped it), and the job's state according to its record, or ''
local dead, record, high, normal, low, ledger, receipt = unpack(KEYS)
local letter, all_steps = unpack(ARGV)
local found = letter_at(dead, letter)
if not found then return receipt_of(receipt) or { 0, redis.call('HGET', record, 'state') or '' } end
local entry = back_to_lane(dead, found, record, { high, normal, low }, all_steps == '1')
keep_receipt(receipt, { 1, entry })
if all_steps == '1' then redis.call('DEL', ledger) end
return { 1, entry }
