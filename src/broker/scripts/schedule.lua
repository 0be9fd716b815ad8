-- schedule: put jobs into the delayed set. A job id that is there already stays as it is, so sending twice does no harm.
-- KEYS 1 delayed  2 delayed:fields  3 wake
-- ARGV for each job: id, 'in' or 'at', milliseconds, packed fields
-- returns {added, place of the first job that was there already or 0}
local now, added, known = now_ms(), 0, 0
for at = 1, #ARGV, 4 do
  local id, due = ARGV[at], tonumber(ARGV[at + 2])
  if ARGV[at + 1] == 'in' then due = now + due end
  if redis.call('HSETNX', KEYS[2], id, ARGV[at + 3]) == 1 then
    redis.call('ZADD', KEYS[1], due, id)
    nudge(KEYS[1], KEYS[3], id)
    added = added + 1
  elseif known == 0 then
    known = (at + 3) / 4
  end
end
return { added, known }
