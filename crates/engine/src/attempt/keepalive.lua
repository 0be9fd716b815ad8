-- keepalive: renew the lease of entries that this consumer still holds. A plain XCLAIM would take an entry back from
-- the consumer that claimed it, so the owner is checked first.
-- After the consumer come the ids of at most 500 entries.
-- returns {renewed, lost entry id, ...}
local stream, consumer = KEYS[1], ARGV[1]
local FIRST_ENTRY = 2
local kept, answer = {}, { 0 }
for at = FIRST_ENTRY, #ARGV do
  local entry = ARGV[at]
  if #redis.call('XPENDING', stream, 'fleet', entry, entry, 1, consumer) == 1 then
    kept[#kept + 1] = entry
  else
    answer[#answer + 1] = entry
  end
end
answer[1] = #kept
if #kept > 0 then
  kept[#kept + 1] = 'JUSTID'
  redis.call('XCLAIM', stream, 'fleet', consumer, 0, unpack(kept))
end
return answer
