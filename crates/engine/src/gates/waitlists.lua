-- waitlists: one page of the waiting lists in which jobs wait. Somebody may have deleted this index alone, or jobs of waiting lists. So
-- the first page checks the places of a few jobs, which differ each time: it adds their waiting lists, and forgets places without a job.
-- locations: see note_location.
-- cursor: '0' for the first page, then what the last page returned.
-- returns {now ms, cursor of the next page or '0', then for each waiting list: its name, ms since when it has waiting jobs, how many
--   it has or -1 if nobody can tell}
local gates, waitlists, locations = unpack(KEYS)
local cursor = ARGV[1]
local some = cursor == '0' and redis.pcall('HRANDFIELD', locations, 10, 'WITHVALUES') or {}
for at = 2, #some, 2 do
  local entry, name = string.match(some[at], '^(%d+%-%d+) (.+)$')
  local waitlist = name and waitlist_key(gates, name)
  local waiting = waitlist and redis.pcall('XLEN', waitlist) or 0
  if waiting ~= 0 and type(waiting) == 'number' and redis.call('HEXISTS', waitlists, name) == 0 then
    redis.pcall('HSETNX', waitlists, name, ms_text(now_ms()))
  end
  local found = waiting ~= 0 and redis.pcall('XRANGE', waitlist, entry, entry) or {}
  if not found[1] and not found.err then redis.pcall('HDEL', locations, some[at - 1]) end
end
local page = redis.call('HSCAN', waitlists, cursor, 'COUNT', 100)
local answer = { now_ms(), page[1] }
for at = 1, #page[2], 2 do
  local length = redis.pcall('XLEN', waitlist_key(gates, page[2][at]))
  add_pair(answer, page[2][at], page[2][at + 1])
  answer[#answer + 1] = type(length) == 'number' and length or -1
end
return answer
