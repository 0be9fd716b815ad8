-- schedule: put jobs into the delayed set. A job id that is there already stays as it is, so sending twice does no harm.
-- KEYS 1 delayed  2 delayed:fields  3 wake  4 control  5 stream high  6 stream normal  7 stream low
-- ARGV 1 the producer's limit of the depth or ''
--      then for each job: id, 'in' or 'at', milliseconds, packed fields
-- returns {added}, or {-1, depth, limit} where they do not fit
local limit = depth_limit(KEYS[4], ARGV[1])
if limit then
  local more = 0
  for at = 2, #ARGV, 4 do more = more + 1 - redis.call('HEXISTS', KEYS[2], ARGV[at]) end
  local full = more > 0 and overfull(limit, more, KEYS[1], KEYS[5], KEYS[6], KEYS[7])
  if full then return full end
end
local now, added = now_ms(), 0
for at = 2, #ARGV, 4 do
  local id, due = ARGV[at], tonumber(ARGV[at + 2])
  if ARGV[at + 1] == 'in' then due = now + due end
  if redis.call('HSETNX', KEYS[2], id, ARGV[at + 3]) == 1 then
    redis.call('ZADD', KEYS[1], due, id)
    nudge(KEYS[1], KEYS[3], id)
    added = added + 1
  end
end
return { added }
