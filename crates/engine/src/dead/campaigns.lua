-- campaigns: the campaigns of a queue, without those whose key has expired or was deleted.
-- returns {how many, {id, 'active' or 'over', ...}}
local campaigns = KEYS[1]
local all, kept = redis.call('HGETALL', campaigns), {}
for at = 1, #all, 2 do
  if redis.call('EXISTS', campaign_key(campaigns, all[at])) == 1 then add_pair(kept, all[at], all[at + 1]) end
end
return { #kept / 2, kept }
