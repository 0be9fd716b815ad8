-- rule_put: change rules of gates, in one step. A rule is a field: p:<gate> if the gate is closed, r:<gate> for limits that
-- somebody has set, c:<gate> for those of a configuration.
-- most: the most fields. stale: fields that begin with this text and are not named are removed; '' for none. Then each
-- field and its new value, or '' to remove it. The value of p:<gate> is '<ms> <by> <newline> <why>', with 0 ms for ever;
-- what is stored is '<ms since> <ms until or 0> <by> <newline> <why>'.
-- returns {fields that have changed, revision} or {-1, fields} if there would be too many; nothing was changed then
local gates = KEYS[1]
local most, stale = unpack(ARGV, 1, 2)
local FIRST_CHANGE = 3
local now, changed, added, named = now_ms(), 0, 0, {}
-- Redis allows this even when it is out of memory, and then admits the other writes: closing a gate must work even then.
redis.call('HDEL', gates, '')
local count = redis.call('HLEN', gates)
for at = FIRST_CHANGE, #ARGV, 2 do
  if ARGV[at + 1] ~= '' then added = added + 1 end
end
if added > 0 and count + added > tonumber(most) then return { -1, count } end
for at = FIRST_CHANGE, #ARGV, 2 do
  local field, value = ARGV[at], ARGV[at + 1]
  named[field] = true
  if value == '' then
    changed = changed + redis.call('HDEL', gates, field)
  else
    if string.sub(field, 1, 2) == 'p:' then
      local ms, rest = string.match(value, '^(%d+) (.*)$')
      value = ms_text(now) .. ' ' .. (ms == '0' and '0' or ms_text(now + tonumber(ms))) .. ' ' .. rest
    end
    if redis.call('HGET', gates, field) ~= value then
      redis.call('HSET', gates, field, value)
      changed = changed + 1
    end
  end
end
for _, field in ipairs(stale ~= '' and redis.call('HKEYS', gates) or {}) do
  if string.sub(field, 1, #stale) == stale and not named[field] then
    changed = changed + redis.call('HDEL', gates, field)
  end
end
local revision = tonumber(redis.call('HGET', gates, '@rev') or 0)
if changed > 0 then
  -- It never repeats, even if the key was lost in between.
  revision = math.max(now, revision + 1)
  redis.call('HSET', gates, '@rev', ms_text(revision))
end
return { changed, revision }
