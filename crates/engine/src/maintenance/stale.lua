-- stale: the server's clock, and the first id in each lane that may not have been renewed for this long. If more
-- entries are pending than one script may check, claim checks them, page by page.
-- returns {now ms, for each lane the first such entry's id, '' if there is none, or '0-0' if too many are pending}
local streams, silence_ms = KEYS, ARGV[1]
-- The most pending entries of a lane that one script checks, in less than a millisecond.
local MOST = 10000
local answer = { now_ms() }
for nth, stream in ipairs(streams) do
  -- A lane without its group, or of another type, does not keep the others from being checked.
  local group = group_of(nth)
  local count, first = group and group.pending or 0, ''
  if count > MOST then
    first = '0-0'
  elseif count > 0 then
    local found = redis.call('XPENDING', stream, 'fleet', 'IDLE', silence_ms, '-', '+', 1)[1]
    first = found and found[1] or ''
  end
  answer[#answer + 1] = first
end
return answer
