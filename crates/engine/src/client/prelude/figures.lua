-- figures: what is read about several keys, of which some may not be readable.

-- The keys that could not be read, by their numbers, each with its error; see ask.
local unread = {}

-- The reply of a command about the key of this number; nil if that key cannot be read, which affects only its own
-- figures.
local function ask(nth, ...)
  local told = redis.pcall(...)
  if type(told) ~= 'table' or not told.err then return told end
  -- With this error XINFO reports that the stream or group does not exist.
  if unread[#unread - 1] ~= nth and not string.find(told.err, 'no such key', 1, true) then
    unread[#unread + 1] = nth
    unread[#unread + 1] = told.err
  end
end

-- The reply of XINFO about the fleet's group in the stream of this number; nil if there is none.
local function group_of(nth)
  return fleet_group(ask(nth, 'XINFO', 'GROUPS', KEYS[nth]) or {})
end
