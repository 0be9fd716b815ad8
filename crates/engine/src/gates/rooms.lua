-- rooms: one page of the rooms in which jobs wait. Somebody may have deleted this index alone, or jobs of rooms. So the first
-- page checks the places of a few jobs, which differ each time: it adds their rooms, and forgets places without a job.
-- places: see note_place.
-- cursor: '0' for the first page, then what the last page returned.
-- returns {now ms, cursor of the next page or '0', then for each room: its name, ms since when it has waiting jobs, how many
--   it has or -1 if nobody can tell}
local gates, rooms, places = unpack(KEYS)
local cursor = ARGV[1]
local some = cursor == '0' and redis.pcall('HRANDFIELD', places, 10, 'WITHVALUES') or {}
for at = 2, #some, 2 do
  local entry, name = string.match(some[at], '^(%d+%-%d+) (.+)$')
  local room = name and room_key(gates, name)
  local waiting = room and redis.pcall('XLEN', room) or 0
  if waiting ~= 0 and type(waiting) == 'number' and redis.call('HEXISTS', rooms, name) == 0 then
    redis.pcall('HSETNX', rooms, name, ms_text(now_ms()))
  end
  local found = waiting ~= 0 and redis.pcall('XRANGE', room, entry, entry) or {}
  if not found[1] and not found.err then redis.pcall('HDEL', places, some[at - 1]) end
end
local page = redis.call('HSCAN', rooms, cursor, 'COUNT', 100)
local answer = { now_ms(), page[1] }
for at = 1, #page[2], 2 do
  local length = redis.pcall('XLEN', room_key(gates, page[2][at]))
  add_pair(answer, page[2][at], page[2][at + 1])
  answer[#answer + 1] = type(length) == 'number' and length or -1
end
return answer
