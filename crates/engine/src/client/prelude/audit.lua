-- audit: what people did.

-- Notes what a person did in the audit, which keeps about the last 10,000 actions, once for each call. action: the fields
-- of the note, packed. A full Redis allows it. Returns the entry's id or an error; never throws.
local function note_action(audit, call, action)
  local before = redis.pcall('XREVRANGE', audit, '+', '-', 'COUNT', 20)
  if before.err then return before end
  for _, noted in ipairs(before) do
    if field_of(noted, 'call') == call then return noted[1] end
  end
  -- Redis allows this even when it is out of memory, and then admits the XADD.
  local trimmed = redis.pcall('XTRIM', audit, 'MAXLEN', '~', 10000)
  if type(trimmed) == 'table' then return trimmed end
  local fields = cmsgpack.unpack(action)
  add_pair(fields, 'call', call)
  return append(audit, fields, 1, #fields)
end

-- Notes an action that the script has carried out already. Returns '', or why it is not noted.
local function why_not_noted(audit, call, action)
  local noted = note_action(audit, call, action)
  return type(noted) == 'table' and noted.err or ''
end
