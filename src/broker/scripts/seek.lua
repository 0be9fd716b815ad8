-- seek: look for a job by its id in one page of a lane.
-- KEYS 1 stream
-- ARGV 1 job id  2 the id of the entry to begin with, or '+'  3 at most so many entries  4 'down' for the newest entry first, or 'up'
-- returns {entries looked at, id of the last of them or '', id of the job's entry or nil}
local page = ARGV[4] == 'up' and redis.call('XRANGE', KEYS[1], ARGV[2], '+', 'COUNT', ARGV[3])
  or redis.call('XREVRANGE', KEYS[1], ARGV[2], '-', 'COUNT', ARGV[3])
for _, entry in ipairs(page) do
  for at = 1, #entry[2], 2 do
    if entry[2][at] == 'id' and entry[2][at + 1] == ARGV[1] then return { #page, entry[1], entry[1] } end
  end
end
return { #page, page[1] and page[#page][1] or '', false }
