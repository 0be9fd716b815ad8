-- entries: what Redis tells about the entries of a stream without reading them.

-- No entry has this id. Ending it has no effect but an error if the login may not end entries, which a script must know
-- before its first insert.
local NO_ENTRY = '0-0'

-- The facts of the fleet's group, from a reply of XINFO GROUPS; nil if the group is not in it, or if it is an error.
local function fleet_group(groups)
  for _, group in ipairs(groups) do
    local facts = {}
    for at = 1, #group, 2 do facts[group[at]] = group[at + 1] end
    if facts.name == 'fleet' then return facts end
  end
end

-- The pending entry of this id, of this consumer if one is named: its id, its consumer, ms of its silence, how often it
-- was delivered. nil if it is not pending, or its lane cannot be read.
local function pending_of(stream, entry, ...)
  local pending = redis.pcall('XPENDING', stream, 'fleet', entry, entry, 1, ...)
  return not pending.err and pending[1] or nil
end

-- The consumer that gets an entry for a moment, to learn whether it exists. No worker can have this name.
local PROBE = '?'

-- True if an entry of a lane exists and is not pending. XRANGE would hand all of it to Lua, which takes long if it has many MiB,
-- but XCLAIM with FORCE tells its id alone. It takes nothing from other consumers: no entry has been silent that long. A lane
-- without the group does not tell: true.
local function is_unread(stream, entry)
  -- If the login may not do this, nothing is claimed.
  local removed = redis.pcall('XGROUP', 'DELCONSUMER', stream, 'fleet', PROBE)
  if type(removed) == 'table' then
    if string.find(removed.err, 'requires the key to exist', 1, true) then return false end
    if string.find(removed.err, 'NOGROUP', 1, true) then return true end
    error(removed)
  end
  local found = redis.call('XCLAIM', stream, 'fleet', PROBE, '9007199254740991', entry, 'FORCE', 'JUSTID')
  redis.call('XGROUP', 'DELCONSUMER', stream, 'fleet', PROBE)
  return found[1] ~= nil
end

-- True if this entry is pending, or waits to be read.
local function is_alive(stream, entry)
  return pending_of(stream, entry) ~= nil or is_unread(stream, entry)
end

-- True if an entry's id is not after another one. False if there is no other one.
local function is_up_to(id, last)
  local ms, nth = string.match(id, '^(%d+)-(%d+)$')
  local last_ms, last_nth = string.match(last or '', '^(%d+)-(%d+)$')
  if not last_ms then return false end
  ms, last_ms = tonumber(ms), tonumber(last_ms)
  return ms < last_ms or ms == last_ms and tonumber(nth) <= tonumber(last_nth)
end

-- True if an error says that the key of a lane has another type, or that it has no group.
local function is_about_lane(text)
  return string.find(text, 'WRONGTYPE', 1, true) ~= nil or string.find(text, 'NOGROUP', 1, true) ~= nil
end

-- The first of these lanes in which no entry waits for a worker, or whose group is missing; nil if there is none. What a
-- script appends to such a lane is all that a read in the same script returns.
local function idle_lane(lanes)
  for _, lane in ipairs(lanes) do
    local group = fleet_group(redis.pcall('XINFO', 'GROUPS', lane))
    if not group then return lane end
    -- A pending entry may have no body any more, so their numbers do not prove that nothing waits. The lag does, but for a
    -- while after an entry that waited was deleted, Redis does not know it. To read what waits may take long.
    local length = redis.call('XLEN', lane)
    if length == 0 or length <= group.pending and group.lag == 0 then return lane end
  end
end
