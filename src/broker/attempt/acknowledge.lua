-- acknowledge: delete the entries of plain successes of one lane. One script, so that all of it is done or nothing: where
-- Redis refuses XDEL, XACK would leave entries that are neither pending nor deleted, which nobody would ever look for.
-- KEYS 1 stream
-- ARGV 1.. entry ids, at most 500
-- returns {how many were still ours to settle, then the places of those that somebody else had settled, from 1}
local stream = KEYS[1]
if redis.call('XDEL', stream, unpack(ARGV)) == #ARGV then
  redis.call('XACK', stream, 'fleet', unpack(ARGV))
  return { #ARGV }
end
local answer = { 0 }
for place, entry in ipairs(ARGV) do
  if redis.call('XACK', stream, 'fleet', entry) == 1 then
    answer[1] = answer[1] + 1
  else
    answer[#answer + 1] = place
  end
end
return answer
