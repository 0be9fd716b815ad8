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
local answer = { now_ms(), record, false, false, false, false, false, false, false, false }
local told = redis.call('HMGET', KEYS[1], 'life', 'member', 'entry', 'lane')
-- Another life of the id may have had the place when this one was put off.
local member = told[2] or ARGV[1]
local due = redis.call('ZSCORE', KEYS[2], member)
if not due and told[2] then
  member = ARGV[1]
  due = redis.call('ZSCORE', KEYS[2], member)
end
if due then
  answer[3] = due
  answer[4] = redis.call('HGET', KEYS[3], member)
end
local lanes = { high = KEYS[4], normal = KEYS[5], low = KEYS[6] }
local entry, lane, found = ARGV[2], ARGV[3], nil
if entry ~= '' then found = redis.call('XRANGE', lanes[lane], entry, entry)[1] end
if not found then
  entry, lane = told[3], told[4]
  if entry and lane and lanes[lane] then found = redis.call('XRANGE', lanes[lane], entry, entry)[1] end
end
local life = told[1]
if found then
  answer[5], answer[6] = lane, entry
  local own = nil
  for at = 1, #found[2], 2 do
    if found[2][at] == 'type' then answer[8] = found[2][at + 1] end
    if found[2][at] == 'created_ms' then answer[9] = found[2][at + 1] end
    if found[2][at] == 'life' then own = found[2][at + 1] end
  end
  life = own or answer[9] or (lane == 'normal' and entry or entry .. '-' .. lane)
  local pending = redis.pcall('XPENDING', lanes[lane], 'fleet', entry, entry, 1)
  if not pending.err and pending[1] then answer[7] = pending[1][2] end
end
if life then answer[10] = redis.call('ZSCORE', KEYS[7], life) end
return answer
