-- rule_put: change rules of gates, in one step. A rule is a field: p:<gate> if the gate is closed, r:<gate> for limits that
-- somebody has set, c:<gate> for those of a configuration. Forgets who closed gates for a time that is over.
-- most: the most fields. most_keys: on how many fields of jobs the gates may depend. stale: fields that begin with this
-- text and are not named are removed; '' for none. Then each field and its new value, or '' to remove it. The value of
-- p:<gate> is '<ms> <by> <newline> <why>', with 0 ms for ever; what is stored is '<ms since> <ms until or 0> <by> <newline>
-- <why>'.
-- returns {fields that have changed, revision}, {-1, fields} if there would be too many, or {-2, fields of jobs} if the gates
--   would depend on too many; nothing was changed then. The whole queue can always be closed.
local gates = KEYS[1]
local most, most_keys, stale = unpack(ARGV, 1, 3)
local FIRST_CHANGE = 4
local now, changed, added, count, named, known = now_ms(), 0, 0, 0, {}, {}
-- Redis allows this even when it is out of memory, and then admits the other writes: closing a gate must work even then.
redis.call('HDEL', gates, '')
for _, field in ipairs(redis.call('HKEYS', gates)) do
  local closed = string.sub(field, 1, 2) == 'p:' and redis.call('HGET', gates, field) or ''
  local till = tonumber(string.match(closed, '^%d+ (%d+) ') or '0')
  if till > 0 and till <= now then
    redis.call('HDEL', gates, field)
  else
    known[field], count = true, count + 1
  end
end
local function job_field(field) return string.match(field, '^%a:key:([^=]+)') end
-- What the gates will depend on.
local keys, many, grows = {}, 0, false
local function depend_on(key)
  if key and not keys[key] then keys[key], many = true, many + 1 end
end
for at = FIRST_CHANGE, #ARGV, 2 do named[ARGV[at]] = ARGV[at + 1] end
for field in pairs(known) do
  local is_stale = stale ~= '' and string.sub(field, 1, #stale) == stale
  if named[field] ~= '' and (named[field] or not is_stale) then depend_on(job_field(field)) end
end
for field, value in pairs(named) do
  if value ~= '' and not known[field] then
    if field ~= 'p:queue' then added = added + 1 end
    local before = many
    depend_on(job_field(field))
    grows = grows or many > before
  end
end
if added > 0 and count + added > tonumber(most) then return { -1, count } end
if grows and many > tonumber(most_keys) then return { -2, many } end
for at = FIRST_CHANGE, #ARGV, 2 do
  local field, value = unpack(ARGV, at, at + 1)
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
  if string.sub(field, 1, #stale) == stale and named[field] == nil then
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
