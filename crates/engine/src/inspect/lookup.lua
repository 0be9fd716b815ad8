-- lookup: what is known about one job, and where its fields should be. It reads neither entries nor packed fields,
-- because Lua would copy and hash each byte. The caller reads those, and looks the job up again if they have moved.
-- from_entry, from_lane: the entry and the lane it was derived from or ''. names: those of the record's fields to read.
-- returns {now ms, those of the fields that exist, flat, due ms or nil, its member of the delayed set, if that has fields, or
--   nil, the generation in the record or nil, ms of the request to cancel that generation or nil, {lane, entry id, consumer it is pending
--   on or '', waiting list or ''} for each entry that may be the job's}
-- locations: see note_location.
local record, delayed, high, normal, low, cancels, packs, locations = unpack(KEYS)
local id, from_entry, from_lane, names = ARGV[1], ARGV[2], ARGV[3], { unpack(ARGV, 4) }
local fields = {}
for at, value in ipairs(redis.call('HMGET', record, unpack(names))) do
  if value then add_pair(fields, names[at], value) end
end
local answer = { now_ms(), fields, false, false, false, false }
local reply = redis.call('HMGET', record, 'life', 'member', 'entry', 'lane')
-- Another generation of the id may have had that place when this one was deferred.
local member = reply[2] or id
local due = redis.call('ZSCORE', delayed, member)
if not due and reply[2] then
  member = id
  due = redis.call('ZSCORE', delayed, member)
end
-- A member without fields gives nothing to read.
if due then answer[3], answer[4] = due, redis.call('HEXISTS', packs, member) == 1 and member end
if reply[1] then answer[5], answer[6] = reply[1], redis.call('ZSCORE', cancels, reply[1]) end
local lanes = { high = high, normal = normal, low = low }
local function location(lane, entry)
  if not lane or not entry or not lanes[lane] then return end
  local pending = pending_of(lanes[lane], entry)
  answer[#answer + 1] = { lane, entry, pending and pending[2] or '', '' }
end
for _, name in ipairs({ second_name(id, reply[1]), id }) do
  local spot = redis.pcall('HGET', locations, name)
  local parked, waitlist = string.match(type(spot) == 'string' and spot or '', '^(%d+%-%d+) (.+)$')
  if parked then answer[#answer + 1] = { 'normal', parked, '', waitlist } end
end
location(from_lane, from_entry)
if reply[3] ~= from_entry or reply[4] ~= from_lane then location(reply[4], reply[3]) end
return answer
