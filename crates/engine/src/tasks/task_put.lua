-- task_put: begin a task. If there are too many of its index, one that is gone or has been over for longest makes room. The first
-- write is one that a full Redis refuses, so it is refused as a whole, unless the task makes room in Redis.
-- plan: what it is to do, as JSON. cursor: where its first page begins. step_ms: how long its rate allows one job for, or '' without
-- a rate. most: the most tasks of the index that are known. is_freeing: '1' if it makes room in Redis. call, action: the note for the
-- audit.
-- returns {1, '' or why this is not noted} begun, {0} there are too many that are not over
local index, task, audit = unpack(KEYS)
local id, state, plan, cursor, step_ms, most, is_freeing, call, action = unpack(ARGV)
if redis.call('EXISTS', task) == 1 then return { 1 } end
local key_of, oldest, least = name_in(task, 'task') and task_key or campaign_key, nil, math.huge
if redis.call('HLEN', index) >= tonumber(most) then
  local all = redis.call('HGETALL', index)
  for at = 1, #all, 2 do
    local key = key_of(index, all[at])
    -- Its key may have expired.
    local is_gone = redis.call('EXISTS', key) == 0
    local changed = not is_gone and all[at + 1] == 'over' and redis.pcall('HGET', key, 'changed_ms')
    local since = type(changed) == 'string' and tonumber(changed) or 0
    if (is_gone or all[at + 1] == 'over') and since < least then oldest, least = all[at], since end
  end
  if not oldest then return { 0 } end
end
local now = ms_text(now_ms())
-- Redis allows this even when it is out of memory, and then admits the other writes.
if is_freeing == '1' then redis.call('HDEL', task, '') end
redis.call('HSET', task, 'plan', plan, 'state', state, 'cursor', cursor, 'page', '0', 'created_ms', now, 'changed_ms', now)
if step_ms ~= '' then redis.call('HSET', task, 'step_ms', step_ms) end
if oldest then
  redis.call('UNLINK', key_of(index, oldest))
  redis.call('HDEL', index, oldest)
end
redis.call('HSET', index, id, 'active')
return { 1, why_not_noted(audit, call, action) }
