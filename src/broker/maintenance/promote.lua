-- promote: move due jobs from the delayed set to their lanes, up to a limit on their total size.
-- most, most_bytes: the most jobs and the most bytes; a larger job goes alone.
-- returns {moved, ms until the next is due or -1, ms by which the first was late, 1 if more are due or 0}
local delayed, packs, dead, high, normal, low = unpack(KEYS)
local most, most_bytes = tonumber(ARGV[1]), tonumber(ARGV[2])
local now = now_ms()
-- The fraction of a score orders jobs that are due in the same millisecond.
local due = redis.call('ZRANGEBYSCORE', delayed, '-inf', '(' .. ms_text(now + 1), 'WITHSCORES', 'LIMIT', 0, most)
local lanes = { high = high, normal = normal, low = low }
local gone, late, bytes, size, more = {}, 0, 0, 0, #due >= 2 * most
if due[2] then late = now - math.floor(tonumber(due[2])) end
-- Redis allows this even when it is out of memory, and then admits the other writes. A moved job takes no more memory
-- than before. If none were moved, none would finish, and nothing would free memory.
if due[1] then redis.call('ZREM', delayed, '') end
for at = 1, #due, 2 do
  local id = due[at]
  -- After a small job, the next one is read without asking for its size.
  local packed = size < 4096 and at > 1 and redis.call('HGET', packs, id) or nil
  size = packed and #packed or redis.call('HSTRLEN', packs, id)
  bytes = bytes + size
  if at > 1 and bytes > most_bytes then
    more = true
    break
  end
  packed = packed or redis.call('HGET', packs, id) or ''
  local read, fields = pcall(cmsgpack.unpack, packed)
  local stream = read and type(fields) == 'table' and lanes[fields[1]]
  local added = stream and append(stream, fields, 2, #fields)
  -- The fields are checked only if Redis refuses them.
  if not stream or type(added) == 'table' and not is_flat(fields, 2, #fields) then
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
if gone[1] then
  redis.call('ZREM', delayed, unpack(gone))
  redis.call('HDEL', packs, unpack(gone))
end
local next = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
return { #gone, next and math.max(0, math.floor(tonumber(next)) - now) or -1, late, more and 1 or 0 }
