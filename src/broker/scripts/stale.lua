-- stale: the server's clock, and where in each lane entries begin that nobody renewed for so long.
-- KEYS 1..3 streams
-- ARGV 1 ms of silence
-- returns {now ms, for each lane the first such entry's id, or ''}
local answer = { now_ms() }
for at = 1, #KEYS do
  -- A lane without its group, or of another type, does not keep the others from being looked at.
  local pending = redis.pcall('XPENDING', KEYS[at], 'fleet', 'IDLE', ARGV[1], '-', '+', 1)
  answer[#answer + 1] = pending[1] and pending[1][1] or ''
end
return answer
