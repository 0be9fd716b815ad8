-- lookup: what is known about one job, and where its fields should be. It reads neither entries nor packed fields,
-- because Lua would copy and hash each byte. The caller reads those, and looks the job up again if they have moved.
-- KEYS 1 record  2 delayed  3 stream high  4 stream normal  5 stream low  6 cancels  7 delayed:fields
-- ARGV 1 job id  2 the entry it was derived from or ''  3 the lane it was derived from or ''  4.. fields of the record
-- returns {now ms, those of the fields that exist, flat, due ms or nil, its member of the delayed set, if that has fields, or
--   nil, the life in the record or nil, ms of the request to cancel that life or nil, {lane, entry id, consumer it is pending
--   on or ''} for each entry that may be the job's}
local names = { unpack(ARGV, 4) }
local record = {}
for at, value in ipairs(redis.call('HMGET', KEYS[1], unpack(names))) do
  if value then
    record[#record + 1] = names[at]
    record[#record + 1] = value
  end
end
local answer = { now_ms(), record, false, false, false, false }
local told = redis.call('HMGET', KEYS[1], 'life', 'member', 'entry', 'lane')
-- Another life of the id may have had that place when this one was deferred.
local member = told[2] or ARGV[1]
local due = redis.call('ZSCORE', KEYS[2], member)
if not due and told[2] then
  member = ARGV[1]
  due = redis.call('ZSCORE', KEYS[2], member)
end
-- A member without fields gives nothing to read.
if due then answer[3], answer[4] = due, redis.call('HEXISTS', KEYS[7], member) == 1 and member end
if told[1] then answer[5], answer[6] = told[1], redis.call('ZSCORE', KEYS[6], told[1]) end
local lanes = { high = KEYS[3], normal = KEYS[4], low = KEYS[5] }
local function place(lane, entry)
  if not lane or not entry or not lanes[lane] then return end
  local pending = redis.pcall('XPENDING', lanes[lane], 'fleet', entry, entry, 1)
  answer[#answer + 1] = { lane, entry, not pending.err and pending[1] and pending[1][2] or '' }
end
place(ARGV[3], ARGV[2])
if told[3] ~= ARGV[2] or told[4] ~= ARGV[3] then place(told[4], told[3]) end
return answer
