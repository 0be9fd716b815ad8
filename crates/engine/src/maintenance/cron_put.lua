-- cron_put: store a recurring job if its state is still the one that was read.
-- read: the state that was read, or ''. pack: the packed entry. handled_ms: that of its last tick, or '' for now.
-- ending: what the state ends with. most: the most entries.
-- returns {1} stored, {0} the state is another, {2} there are too many entries
local cron, ticks = unpack(KEYS)
local name, read, pack, handled_ms, ending, most = unpack(ARGV)
local state = redis.call('HGET', ticks, name) or ''
if state ~= read then return { 0 } end
local is_new = state == '' and redis.call('HEXISTS', cron, name) == 0
if is_new and redis.call('HLEN', cron) >= tonumber(most) then return { 2 } end
redis.call('HSET', cron, name, pack)
local revision = redis.call('HINCRBY', ticks, ':revision', 1)
if handled_ms == '' then handled_ms = string.format('%.0f', now_ms()) end
redis.call('HSET', ticks, name, string.format('%s %.0f%s', handled_ms, revision, ending))
return { 1 }
