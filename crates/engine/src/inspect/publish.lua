-- publish: append events to a queue's stream of events, which keeps about this many. Sent twice, it would publish them
-- twice, so it is sent once, and an event may be lost.
-- most: about how many events to keep. Then for each event: the number of its field names and values together, then
-- these, flat.
-- returns {events}
local events, most = KEYS[1], ARGV[1]
local FIRST_EVENT = 2
local count, at = 0, FIRST_EVENT
while at <= #ARGV do
  local last = at + tonumber(ARGV[at])
  if not make_entry(last - at) then return refuse_fields(count + 1, last - at) end
  redis.call('XADD', events, 'MAXLEN', '~', most, '*', unpack(ARGV, at + 1, last))
  count, at = count + 1, last + 1
end
return { count }
