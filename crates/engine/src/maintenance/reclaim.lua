-- reclaim: make orphans pending again, as entries of a consumer that has been silent for so long that they are claimed next;
-- see orphans. What is pending, is gone, or was not delivered yet is left alone: Redis makes no entry pending that does not
-- exist. Sent twice, it gives the same answer.
-- silence_ms: for how long the consumer has been silent. entries: at most 100.
-- returns {how many of the entries are pending for this consumer}
local stream, consumer, silence_ms, entries = KEYS[1], ARGV[1], ARGV[2], { unpack(ARGV, 3) }
-- Compares two numbers as text. The numbers of Lua are too short for ids.
local function is_above(one, other)
  if #one ~= #other then return #one > #other end
  return one > other
end
local function is_after(one, other)
  local ms, seq = string.match(one, '^(%d+)-(%d+)$')
  local other_ms, other_seq = string.match(other, '^(%d+)-(%d+)$')
  if ms ~= other_ms then return is_above(ms, other_ms) end
  return is_above(seq, other_seq)
end
local group, held = fleet_group(redis.pcall('XINFO', 'GROUPS', stream)), 0
if not group then return { 0 } end
for _, entry in ipairs(entries) do
  if not is_after(entry, group['last-delivered-id']) then
    if not pending_of(stream, entry) then
      redis.call('XCLAIM', stream, 'fleet', consumer, 0, entry, 'IDLE', silence_ms, 'FORCE', 'JUSTID')
    end
    if pending_of(stream, entry, consumer) then held = held + 1 end
  end
end
return { held }
