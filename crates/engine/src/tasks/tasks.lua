-- tasks: the tasks of a queue, without those whose key has expired or was deleted.
-- returns {how many, two lists, of those that replay dead letters and of the others: {id, 'active' or 'over', when it began in ms, ...}}
local campaigns, tasks = unpack(KEYS)
local count = 0
local function known(index, key_of)
  local all, kept = redis.call('HGETALL', index), {}
  for at = 1, #all, 2 do
    local key = key_of(index, all[at])
    if redis.call('EXISTS', key) == 1 then
      local begun = redis.pcall('HGET', key, 'created_ms')
      add_pair(kept, all[at], all[at + 1])
      kept[#kept + 1], count = type(begun) == 'string' and begun or '0', count + 1
    end
  end
  return kept
end
local replays, others = known(campaigns, campaign_key), known(tasks, task_key)
return { count, replays, others }
