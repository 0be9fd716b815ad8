-- task_read: what is known about one task, without the generations of the jobs that it has replayed. Only one of the two keys exists.
-- The arguments are the names of the fields.
-- returns {1, its fields, flat, the time}
local campaign, other = unpack(KEYS)
local task = redis.call('EXISTS', campaign) == 1 and campaign or other
local reply, fields = redis.call('HMGET', task, unpack(ARGV)), {}
for at, name in ipairs(ARGV) do
  if reply[at] then add_pair(fields, name, reply[at]) end
end
return { 1, fields, ms_text(now_ms()) }
