-- tick: append the jobs of a recurring job's ticks and move its state, in one step, if the state is still the one that
-- was read. It begins with the write that a full Redis refuses, so it is refused as a whole.
-- KEYS 1 cron:ticks  2 stream
-- ARGV 1 name  2 the state that was read  3 the new state  4.. for each job: the number of its field names and values
--   together, then these, flat
-- returns {1, jobs} done, {0, 0} the state is another: another process did it, or the entry was changed
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return { 0, 0 } end
local jobs, at = {}, 4
while at <= #ARGV do
  local last = at + tonumber(ARGV[at])
  if not make_entry(last - at) then return refuse_fields(#jobs + 1, last - at) end
  jobs[#jobs + 1] = { at + 1, last }
  at = last + 1
end
for _, job in ipairs(jobs) do must_append(KEYS[2], ARGV, job[1], job[2]) end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return { 1, #jobs }
