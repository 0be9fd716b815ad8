-- task_set: move a task to another state, if it is in one of these. A full Redis allows it. Only one of its two keys exists.
-- from: the states, separated by spaces. is_over: '1' if it never changes anything again; then it is kept for keep_ms. call, action:
-- the note for the audit, or ''.
-- returns {1, '' or why this is not noted} moved, {0, its state or ''} it is in another state
local campaigns, campaign, tasks, other, audit = unpack(KEYS)
local id, from, to, why, is_over, keep_ms, call, action = unpack(ARGV)
local index, task = campaigns, campaign
if redis.call('EXISTS', campaign) == 0 then index, task = tasks, other end
local state = redis.call('HGET', task, 'state')
if not state or not string.find(' ' .. from .. ' ', ' ' .. state .. ' ', 1, true) then return { 0, state or '' } end
-- Redis allows this even when it is out of memory, and then admits the other writes.
redis.call('HDEL', task, '')
redis.call('HSET', task, 'state', to, 'why', why, 'changed_ms', ms_text(now_ms()))
if is_over == '1' then
  redis.call('HSET', index, id, 'over')
  redis.call('PEXPIRE', task, keep_ms)
end
return { 1, action ~= '' and why_not_noted(audit, call, action) or '' }
