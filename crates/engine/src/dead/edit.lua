-- edit: write a dead letter with other fields under a new id, because the fields of an entry never change. Everything that
-- named the letter names the new one. If the letter still exists, nobody has changed it. Its large fields are kept for a
-- day, because somebody may have copied it.
-- location: the key that says which letter took its place and by which call, for kept_ms. kept: the key of the new letter's large fields.
-- died_ms, reason, error_text: from the letter. action: the note for the audit, packed. Then the new fields, flat, without
-- the fingerprint and the group.
-- returns {1, id of the new letter, '' or why this is not noted}, {0, the job's state or ''} the letter is gone
local dead, record, audit, location, offloaded, kept = unpack(KEYS)
local letter, call, kept_ms, fingerprint, died_ms, job_type, reason, error_text, action = unpack(ARGV, 1, 9)
local FIRST_FIELD = 10
local by_then, by_call = string.match(redis.call('GET', location) or '', '^(%S+) (%S+)$')
if by_call == call then return { 1, by_then } end
local found = letter_at(dead, letter)
if not found then return { 0, redis.call('HGET', record, 'state') or '' } end
must_be_offloaded(kept)
must_end_letters(dead)
local fields = {}
for at = FIRST_FIELD, #ARGV do fields[#fields + 1] = ARGV[at] end
local edited = replace_letter(dead, record, found, fields, { fingerprint, died_ms, job_type, reason, error_text }, kept)
if type(edited) == 'table' then return edited end
keep_offloaded(kept)
redis.call('SET', location, edited .. ' ' .. call, 'PX', kept_ms)
if kept ~= offloaded then drop_offloaded(offloaded, '') end
return { 1, edited, why_not_noted(audit, call, action) }
