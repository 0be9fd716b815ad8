-- batched: the progress of a batch, and a page of its members that are not done.
-- cursor: where the page begins: '0', or the cursor that the previous page returned.
-- returns {0} no such batch, or {1, state, members, members that are not done, created ms, where the next page begins or
--   '0', then for each member: its id, and the id of the job that it waits for}
local batch, cursor = KEYS[1], ARGV[1]
local state = redis.call('HGET', batch, 'state')
if not state then return { 0 } end
local size, left = tonumber(redis.call('HGET', batch, 'size')), tonumber(redis.call('HGET', batch, 'left'))
if state == 'open' then left = left - 1 end
-- The job that a member waits for; nil if it is done. See submit. All members of a page share this many steps. When they run
-- out, the answer is the job reached so far.
local steps = 2000
local function job_of(member, value)
  if value == '1' then return member end
  local id, reply, rest = followed(batch, string.match(value, '^=(.*)$'), steps)
  steps = rest
  return reply ~= 'done' and id or nil
end
local page = redis.call('HSCAN', batch, cursor, 'MATCH', 'm:*', 'COUNT', 500)
local answer = { 1, state, size, left, redis.call('HGET', batch, 'created_ms'), page[1] }
for at = 1, #page[2], 2 do
  local member = string.sub(page[2][at], 3)
  local id = page[2][at + 1] ~= '0' and job_of(member, page[2][at + 1])
  if id then add_pair(answer, member, id) end
end
return answer
