-- promote: move due jobs from the delayed set to their lanes. It begins with the write that a full Redis refuses, so it
-- is refused whole.
-- KEYS 1 delayed  2 delayed:fields  3 dead  4 stream high  5 stream normal  6 stream low
-- ARGV 1 at most so many
-- returns {moved, ms until the next is due or -1, ms by which the first was late}
local now = now_ms()
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'WITHSCORES', 'LIMIT', 0, ARGV[1])
local lanes = { high = KEYS[4], normal = KEYS[5], low = KEYS[6] }
local members, late = {}, 0
if due[2] then late = now - tonumber(due[2]) end
for at = 1, #due, 2 do
  local packed = redis.call('HGET', KEYS[2], due[at])
  local read, fields = pcall(cmsgpack.unpack, packed or '')
  local stream = read and type(fields) == 'table' and lanes[fields[1]]
  if stream and #fields > 2 and #fields % 2 == 1 then
    redis.call('XADD', stream, '*', unpack(fields, 2))
  else
    redis.call('XADD', KEYS[3], '*', 'raw', packed or '', 'dead_reason', 'malformed', 'dead_error',
      'the fields of the delayed job ' .. due[at] .. ' cannot be read', 'dead_at_ms', string.format('%.0f', now))
  end
  members[#members + 1] = due[at]
end
if #members > 0 then
  redis.call('ZREM', KEYS[1], unpack(members))
  redis.call('HDEL', KEYS[2], unpack(members))
end
local next = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
return { #members, next and math.max(0, tonumber(next) - now) or -1, late }
