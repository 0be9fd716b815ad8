-- amend: change when a job in the delayed set is due, or its fields, in one step. It begins with the write that a full
-- Redis refuses, so it is refused as a whole.
-- KEYS 1 delayed  2 delayed:fields  3 record  4 wake  5 ledger of its steps
-- ARGV 1 job id  2 'in', 'at' or '' to leave the time  3 milliseconds  4 the packed fields that were read, or '' to leave them
--      5 the packed fields to replace them with, or ''
-- returns {1, due ms} changed, {0} not in the delayed set, {2} its fields are not those that were read
-- If the id has two lives, it changes the one in the record.
local now, told = now_ms(), redis.call('HMGET', KEYS[3], 'life', 'member')
local member = told[2] or ARGV[1]
local due = redis.call('ZSCORE', KEYS[1], member)
local life = due and told[1] and life_of(redis.call('HGET', KEYS[2], member) or '')
if not due or (life and life ~= told[1]) then return { 0 } end
due = tonumber(due)
if ARGV[2] == 'in' then due = now + tonumber(ARGV[3]) end
if ARGV[2] == 'at' then due = tonumber(ARGV[3]) end
if ARGV[4] ~= '' then
  local fields = redis.call('HGET', KEYS[2], member)
  if fields ~= ARGV[4] and fields ~= ARGV[5] then return { 2 } end
  local kept, former = offloaded_by(ARGV[5], KEYS[1]), offloaded_by(fields, KEYS[1])
  must_be_offloaded(kept)
  redis.call('HSET', KEYS[2], member, ARGV[5])
  keep_offloaded(kept)
  if kept ~= former then drop_offloaded(former, life or '', KEYS[3]) end
end
if ARGV[2] ~= '' then
  redis.call('ZADD', KEYS[1], 'XX', due, member)
  nudge(KEYS[1], KEYS[4], member)
  -- Its steps then have no due times of their own.
  for _, name in ipairs(redis.call('HKEYS', KEYS[5])) do
    if string.sub(name, -4) == ':due' then redis.call('HDEL', KEYS[5], name) end
  end
end
if redis.call('EXISTS', KEYS[3]) == 1 then redis.call('HSET', KEYS[3], 'due_ms', due, 'updated_ms', now) end
return { 1, due }
