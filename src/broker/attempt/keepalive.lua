-- keepalive: renew the lease of entries that this consumer still holds. A plain XCLAIM would take an entry back from
-- the consumer that claimed it, so the owner is checked first.
-- KEYS 1 stream
-- ARGV 1 consumer  2.. at most 500 entry ids
-- returns {renewed, lost entry id, ...}
local kept, answer = {}, { 0 }
for at = 2, #ARGV do
  if #redis.call('XPENDING', KEYS[1], 'fleet', ARGV[at], ARGV[at], 1, ARGV[1]) == 1 then
    kept[#kept + 1] = ARGV[at]
  else
    answer[#answer + 1] = ARGV[at]
  end
end
answer[1] = #kept
if #kept > 0 then
  kept[#kept + 1] = 'JUSTID'
  redis.call('XCLAIM', KEYS[1], 'fleet', ARGV[1], 0, unpack(kept))
end
return answer
