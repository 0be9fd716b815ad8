-- rooms: one page of the rooms in which jobs wait. Somebody may have deleted this index alone. So the first page adds the
-- rooms of a few jobs, which differ each time.
-- places: job id to its entry and room.
-- cursor: '0' for the first page, then what the last page returned.
-- returns {now ms, cursor of the next page or '0', then for each room: its name, ms since when it has waiting jobs, how many
--   it has or -1 if nobody can tell}
local gates, rooms, places = unpack(KEYS)
local cursor = ARGV[1]
local some = cursor == '0' and redis.pcall('HRANDFIELD', places, 10, 'WITHVALUES') or {}
for at = 2, #some, 2 do
  local name = string.match(some[at], '^%S+ (.+)$')
  local waiting = name and redis.call('HEXISTS', rooms, name) == 0 and redis.pcall('XLEN', gate_key(gates, 'room', name))
  if type(waiting) == 'number' and waiting > 0 then redis.pcall('HSETNX', rooms, name, ms_text(now_ms())) end
end
local page = redis.call('HSCAN', rooms, cursor, 'COUNT', 100)
local answer = { now_ms(), page[1] }
for at = 1, #page[2], 2 do
  local length = redis.pcall('XLEN', gate_key(gates, 'room', page[2][at]))
  add_pair(answer, page[2][at], page[2][at + 1])
  answer[#answer + 1] = type(length) == 'number' and length or -1
end
return answer
