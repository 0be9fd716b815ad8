-- orphans: between which entries of a lane to look for those that were delivered and are neither pending nor deleted: nobody
-- would ever run them or delete them. Every other delivered entry is pending, so orphans are only between pending entries, and
-- behind them up to the last delivered one. The caller looks for them by XRANGE: even for the id of an entry alone, a script
-- would get all of it, and it may have many MiB.
-- after: the id after which to look, '0-0' for all. most: the most pending entries to pass.
-- returns {pending entries, the last delivered entry or '' if there can be no orphans, id, ...}
local stream, after, most = KEYS[1], ARGV[1], ARGV[2]
-- A lane without its group, or of another type, has none.
local group = fleet_group(redis.pcall('XINFO', 'GROUPS', stream))
if not group or redis.call('XLEN', stream) <= group.pending then return { 0, '' } end
local answer = { 0, group['last-delivered-id'] }
for _, held in ipairs(redis.call('XPENDING', stream, 'fleet', '(' .. after, answer[2], most)) do
  answer[#answer + 1] = held[1]
end
answer[1] = #answer - 2
return answer
