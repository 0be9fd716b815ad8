-- tick: append the jobs of a recurring job's ticks and move its state, in one step, if the state is still the one that
-- was read. It begins with the write that a full Redis refuses, so it is refused as a whole.
-- read, moved: the state that was read, and the new one. Then for each job: the number of its field names and values
-- together, then these, flat.
-- returns {1, jobs} done, also if this call did it before; {0, 0} the state is another: another process did it, or the entry
--   was changed
local ticks, stream, receipt = unpack(KEYS)
local name, read, moved = unpack(ARGV, 1, 3)
local FIRST_JOB = 4
if redis.call('HGET', ticks, name) ~= read then return receipt_of(receipt) or { 0, 0 } end
local jobs, at = {}, FIRST_JOB
while at <= #ARGV do
  local last = at + tonumber(ARGV[at])
  if not make_entry(last - at) then return refuse_fields(#jobs + 1, last - at) end
  jobs[#jobs + 1] = { at + 1, last }
  at = last + 1
end
for _, job in ipairs(jobs) do must_append(stream, ARGV, job[1], job[2]) end
redis.call('HSET', ticks, name, moved)
keep_receipt(receipt, { 1, #jobs })
return { 1, #jobs }
