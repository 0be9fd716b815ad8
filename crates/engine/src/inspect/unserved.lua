-- unserved: how long jobs have waited in these waiting lists of types, at most 100, and when a worker that knows the type last
-- asked.
-- KEYS 1 waiting lists  2 asked: waiting list to the time of that question  3 stream normal  then the waiting lists
-- ARGV the names of the waiting lists
-- returns {now ms, members of the group, waiting lists of any kind, for each waiting list: ms since it has jobs or -1, ms of the question
-- or 0, jobs}
local now = now_ms()
local group = fleet_group(redis.pcall('XINFO', 'GROUPS', KEYS[3]))
local answer = { now, group and group.consumers or 0, redis.call('HLEN', KEYS[1]) }
local sinces, asked = redis.call('HMGET', KEYS[1], unpack(ARGV)), redis.call('HMGET', KEYS[2], unpack(ARGV))
for nth = 1, #ARGV do
  -- A waiting list that cannot be read does not hide the others.
  local jobs = redis.pcall('XLEN', KEYS[nth + 3])
  answer[#answer + 1] = tonumber(sinces[nth] or '') or -1
  answer[#answer + 1] = tonumber(asked[nth] or '') or 0
  answer[#answer + 1] = type(jobs) == 'number' and jobs or 0
end
return answer
