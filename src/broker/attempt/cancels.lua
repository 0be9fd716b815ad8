-- cancels: which of these lives somebody has asked to cancel.
-- KEYS 1 cancels
-- ARGV 1.. lives, at most 500; without any, only the number of requests is looked up
-- returns {requests, life, life, ...}
local count = redis.call('ZCARD', KEYS[1])
if count == 0 or #ARGV == 0 then return { count } end
local answer = { count }
for nth, wished in ipairs(redis.call('ZMSCORE', KEYS[1], unpack(ARGV))) do
  if wished then answer[#answer + 1] = ARGV[nth] end
end
return answer
