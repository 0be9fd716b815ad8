-- acknowledge: delete the entries of plain successes of one lane, at most 500. It is one script, so that it does all or
-- nothing: if Redis refused XDEL after XACK, the entries would be neither pending nor deleted, and their jobs would run
-- again once the leader finds them.
-- returns {how many were still ours to settle, then the positions, from 1, of those that another process had settled}
local stream, entries = KEYS[1], ARGV
if redis.call('XDEL', stream, unpack(entries)) == #entries then
  redis.call('XACK', stream, 'fleet', unpack(entries))
  return { #entries }
end
local answer = { 0 }
for location, entry in ipairs(entries) do
  if redis.call('XACK', stream, 'fleet', entry) == 1 then
    answer[1] = answer[1] + 1
  else
    answer[#answer + 1] = location
  end
end
return answer
