-- stale: the server's clock, and from where on each lane may have entries that nobody renewed for so long. Where more are
-- pending than one script may look at, claim looks at them, page by page.
-- KEYS 1..3 streams
-- ARGV 1 ms of silence
-- returns {now ms, for each lane the first such entry's id, '' where there is none, or '0-0' where too many are pending}
-- A script looks at so many pending entries of each lane: that takes it below a millisecond.
local MOST = 10000
local answer = { now_ms() }
-- A lane without its group, or of another type, does not keep the others from being looked at.
local function pending(stream)
  local groups = redis.pcall('XINFO', 'GROUPS', stream)
  for _, group in ipairs(groups.err and {} or groups) do
    local facts = {}
    for at = 1, #group, 2 do facts[group[at]] = group[at + 1] end
    if facts.name == 'fleet' then return facts.pending end
  end
  return 0
end
for at = 1, #KEYS do
  local count, first = pending(KEYS[at]), ''
  if count > MOST then
    first = '0-0'
  elseif count > 0 then
    local found = redis.call('XPENDING', KEYS[at], 'fleet', 'IDLE', ARGV[1], '-', '+', 1)[1]
    first = found and found[1] or ''
  end
  answer[#answer + 1] = first
end
return answer
