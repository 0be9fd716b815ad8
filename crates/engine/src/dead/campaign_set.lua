-- campaign_set: move a campaign to another state, if it is in one of these. A full Redis allows it.
-- from: the states, separated by spaces. is_over: '1' if it never replays again; then it is kept for keep_ms. call, action:
-- the note for the audit, or ''.
-- returns {1, '' or why this is not noted} moved, {0, its state or ''} it is in another state
local campaigns, campaign, audit = unpack(KEYS)
local id, from, to, why, is_over, keep_ms, call, action = unpack(ARGV)
local state = redis.call('HGET', campaign, 'state')
if not state or not string.find(' ' .. from .. ' ', ' ' .. state .. ' ', 1, true) then return { 0, state or '' } end
-- Redis allows this even when it is out of memory, and then admits the other writes.
redis.call('HDEL', campaign, '')
redis.call('HSET', campaign, 'state', to, 'why', why, 'changed_ms', ms_text(now_ms()))
if is_over == '1' then
  redis.call('HSET', campaigns, id, 'over')
  redis.call('PEXPIRE', campaign, keep_ms)
end
return { 1, action ~= '' and why_not_noted(audit, call, action) or '' }
