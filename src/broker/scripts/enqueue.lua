-- enqueue: append jobs to one lane.
-- KEYS 1 stream
-- ARGV for each job: the number of its field names and values together, then these, flat
-- returns {jobs, entry id, entry id, ...}
local answer, at = { 0 }, 1
while at <= #ARGV do
  local last = at + tonumber(ARGV[at])
  answer[1] = answer[1] + 1
  answer[answer[1] + 1] = redis.call('XADD', KEYS[1], '*', unpack(ARGV, at + 1, last))
  at = last + 1
end
return answer
