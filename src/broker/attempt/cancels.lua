-- cancels: which of these lives, at most 500, somebody has asked to cancel. Without any, only the number of requests is
-- looked up.
-- returns {requests, life, life, ...}
local cancels, lives = KEYS[1], ARGV
local count = redis.call('ZCARD', cancels)
if count == 0 or #lives == 0 then return { count } end
local answer = { count }
for nth, wished in ipairs(redis.call('ZMSCORE', cancels, unpack(lives))) do
  if wished then answer[#answer + 1] = lives[nth] end
end
return answer
