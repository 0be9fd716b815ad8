-- cancels: a page of the jobs that somebody wants cancelled. Wishes that were not met in a day are forgotten.
-- KEYS 1 cancels
-- ARGV 1 how many to skip  2 at most so many
-- returns {how many there are, id, ms of the wish, id, ...}
local count = redis.call('ZCARD', KEYS[1])
if count == 0 then return { 0 } end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_ms() - 86400000)
local answer = redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[1] + ARGV[2] - 1, 'WITHSCORES')
table.insert(answer, 1, count)
return answer
