-- lookup: everything known about one job.
-- KEYS 1 record  2 delayed  3 delayed:fields  4 stream high  5 stream normal  6 stream low  7 cancels
-- ARGV 1 job id  2 the entry it was derived from or ''  3 the lane it was derived from or ''  4 '1' for its log lines too
-- returns {now ms, record fields flat, due ms or nil, packed fields or nil, lane of its entry or nil, entry id or nil,
--   consumer it is pending on or nil, type in its entry or nil, created ms in its entry or nil,
--   ms of the wish to cancel it or nil}
local record = redis.call('HGETALL', KEYS[1])
if ARGV[4] ~= '1' then
  local lean = {}
  for at = 1, #record, 2 do
    if string.sub(record[at], 1, 2) ~= 'l:' then
      lean[#lean + 1] = record[at]
      lean[#lean + 1] = record[at + 1]
    end
  end
  record = lean
end
local answer = { now_ms(), record, false, false, false, false, false, false, false,
  redis.call('ZSCORE', KEYS[7], ARGV[1]) }
local due = redis.call('ZSCORE', KEYS[2], ARGV[1])
if due then
  answer[3] = due
  answer[4] = redis.call('HGET', KEYS[3], ARGV[1])
end
local lanes = { high = KEYS[4], normal = KEYS[5], low = KEYS[6] }
local entry, lane, found = ARGV[2], ARGV[3], nil
if entry ~= '' then found = redis.call('XRANGE', lanes[lane], entry, entry)[1] end
if not found then
  entry, lane = redis.call('HGET', KEYS[1], 'entry'), redis.call('HGET', KEYS[1], 'lane')
  if entry and lane and lanes[lane] then found = redis.call('XRANGE', lanes[lane], entry, entry)[1] end
end
if found then
  answer[5], answer[6] = lane, entry
  for at = 1, #found[2], 2 do
    if found[2][at] == 'type' then answer[8] = found[2][at + 1] end
    if found[2][at] == 'created_ms' then answer[9] = found[2][at + 1] end
  end
  local pending = redis.pcall('XPENDING', lanes[lane], 'fleet', entry, entry, 1)
  if not pending.err and pending[1] then answer[7] = pending[1][2] end
end
return answer
