-- publish: append events to a queue's stream of events, which keeps about this many. Sent twice, it would publish them
-- twice, so it is sent once, and an event may be lost.
-- KEYS 1 events
-- ARGV 1 about how many events to keep  2.. for each event: the number of its field names and values together, then
--      these, flat
-- returns {events}
local count, at = 0, 2
while at <= #ARGV do
  local last = at + tonumber(ARGV[at])
  if not make_entry(last - at) then return refuse_fields(count + 1, last - at) end
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', unpack(ARGV, at + 1, last))
  count, at = count + 1, last + 1
end
return { count }
