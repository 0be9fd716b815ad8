-- orphans: find entries of a lane that were delivered and are neither pending nor deleted: nobody would ever run them or
-- delete them. Every other delivered entry is pending, so it looks only between pending entries, and behind them up to the
-- last delivered one. It reads no entry but orphans, because even for the id alone Lua would get the whole body.
-- after: the id after which to look, '0-0' for all. most: the most pending entries to pass. most_found, most_weight: after this
-- number of orphans, or this weight of them, it stops early.
-- returns {orphans, the id after which to continue or '' at the end, id, ...}
local stream, after = KEYS[1], ARGV[1]
local most, most_found, most_weight = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
-- A lane without its group, or of another type, has none.
local group = fleet_group(redis.pcall('XINFO', 'GROUPS', stream))
if not group or redis.call('XLEN', stream) <= group.pending then return { 0, '' } end
local last, found, weight = group['last-delivered-id'], {}, 0
local pending = redis.call('XPENDING', stream, 'fleet', '(' .. after, last, most)
for nth = 1, #pending + 1 do
  local held = pending[nth]
  -- After a full page, the next call looks behind it.
  if not held and #pending == most then return { #found, after, unpack(found) } end
  local till = held and '(' .. held[1] or last
  local entry = redis.call('XRANGE', stream, '(' .. after, till, 'COUNT', 1)[1]
  while entry do
    after = entry[1]
    found[#found + 1] = after
    weight = weight + weigh(entry[2])
    if #found >= most_found or weight >= most_weight then return { #found, after, unpack(found) } end
    entry = redis.call('XRANGE', stream, '(' .. after, till, 'COUNT', 1)[1]
  end
  if held then after = held[1] end
end
return { #found, '', unpack(found) }
