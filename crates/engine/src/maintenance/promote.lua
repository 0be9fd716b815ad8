-- promote: move due jobs from the delayed set to their lanes, up to a limit on what they weigh together.
-- most, most_weight: the most jobs and the most that they weigh, see FIELD_WEIGHT; a heavier job goes alone.
-- returns {moved, ms until the next is due or -1, ms by which the first was late, 1 if more are due or 0}
local delayed, packs, dead, high, normal, low = unpack(KEYS)
local most, most_weight = tonumber(ARGV[1]), tonumber(ARGV[2])
-- Packed fields of fewer bytes are small: as long as they are, as many as this are read at once.
local SMALL, MOST_READ = 4096, 32
local now = now_ms()
-- The fraction of a score orders jobs that are due in the same millisecond.
local due = redis.call('ZRANGEBYSCORE', delayed, '-inf', '(' .. ms_text(now + 1), 'LIMIT', 0, most)
local lanes = { high = high, normal = normal, low = low }
local gone, seen, are_first, late, weight, is_full = {}, 0, true, 0, 0, false
if due[1] then
  late = now - math.floor(tonumber(redis.call('ZSCORE', delayed, due[1])))
  -- Redis allows this even when it is out of memory, and then admits the other writes. A moved job takes no more memory
  -- than before. If none were moved, none would finish, and nothing would free memory.
  are_first = redis.call('ZREM', delayed, '') == 0
end
-- Appends the unpacked values, of which there should be this many. Returns the entry's id or an error; nil if they are not a
-- lane and fields that an entry can have. They stay on Lua's stack: a table of them would cost more than to unpack them.
local function add(count, read, _, lane, ...)
  local stream = read and lanes[lane]
  if stream and select('#', ...) == count - 1 then return redis.pcall('XADD', stream, '*', ...) end
end
-- How many values packed fields have, and where the first one begins: they are a MessagePack array, whose length is in its
-- first byte or in the two bytes behind it.
local function count_of(packed)
  local head, high_byte, low_byte = string.byte(packed, 1, 3)
  if head == 0xdc and low_byte then return 256 * high_byte + low_byte, 3 end
  return head and head >= 0x90 and head <= 0x9f and head - 0x90 or 0, 1
end
-- Adds an entry with packed fields, of which there are `count`; see count_of.
local function add_packed(packed, count, from)
  if make_entry(count - 1) then return add(count, pcall(cmsgpack.unpack_limit, packed, count, from)) end
end
local function move(id, packed, count, from)
  seen = seen + 1
  local added = add_packed(packed, count, from)
  -- The types of the fields are checked only if Redis refuses them.
  if not added or type(added) == 'table' and not unpacked(packed) then
    added = set_aside(dead, packed, id, 'the fields of the delayed job cannot be read', now)
  end
  -- A job that Redis refuses does not block those behind it. Nothing here throws, so those before it are certainly
  -- removed.
  if type(added) == 'table' and added.err then
    redis.pcall('ZADD', delayed, now + 5000, id)
  else
    gone[#gone + 1] = id
  end
end
local at, count = 1, 1
while at <= #due and not is_full do
  -- After a large job, the next one is read only if it fits.
  if count == 1 and at > 1 and weight + redis.call('HSTRLEN', packs, due[at]) > most_weight then break end
  local last, largest = math.min(at + count - 1, #due), 0
  for nth, packed in ipairs(redis.call('HMGET', packs, unpack(due, at, last))) do
    packed = packed or ''
    local values, from = count_of(packed)
    weight, largest = weight + #packed + FIELD_WEIGHT * values / 2, math.max(largest, #packed)
    is_full = weight > most_weight and at + nth > 2
    if is_full then break end
    move(due[at + nth - 1], packed, values, from)
  end
  at, count = last + 1, largest < SMALL and math.min(2 * count, MOST_READ) or 1
end
if gone[1] then
  if are_first and #gone == seen then
    -- They are the first of the set, and there is nothing to search for.
    redis.call('ZREMRANGEBYRANK', delayed, '0', string.format('%d', #gone - 1))
  else
    redis.call('ZREM', delayed, unpack(gone))
  end
  redis.call('HDEL', packs, unpack(gone))
end
local next = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
local more = is_full or at <= #due or #due >= most
return { #gone, next and math.max(0, math.floor(tonumber(next)) - now) or -1, late, more and 1 or 0 }
