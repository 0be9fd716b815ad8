-- audit: note what a person did.
-- call: the name of this call, which is noted once. action: the packed fields of the note.
-- returns {1, entry id}
local audit = KEYS[1]
local call, action = unpack(ARGV)
local noted = note_action(audit, call, action)
if type(noted) == 'table' then return noted end
return { 1, noted }
