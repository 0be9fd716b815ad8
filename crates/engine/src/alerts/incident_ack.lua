-- incident_ack: note that a person knows of an incident, and does not want to be reminded of it for a time. A full Redis allows
-- it. for_ms: the time; 0 to be reminded again. by: who and why, for the list of incidents. call, action: the note for the audit.
-- returns {1, until when in ms, '' or why this is not noted}, {0} there is no such incident
local open, acks, audit = unpack(KEYS)
local id, for_ms, by, call, action = unpack(ARGV)
if redis.call('HEXISTS', open, id) == 0 then return { 0 } end
-- Redis allows this even when it is out of memory, and then admits the other writes.
redis.call('HDEL', acks, '')
local till = now_ms() + tonumber(for_ms)
if for_ms == '0' then
  redis.call('HDEL', acks, id)
else
  redis.call('HSET', acks, id, ms_text(till) .. ' ' .. by)
end
return { 1, ms_text(till), why_not_noted(audit, call, action) }
