-- waitlist_jobs: the next jobs of waiting lists, one waiting list after the other, until there are enough. Each is packed, because one
-- text takes the caller less time to read than many. Nobody knows how heavy jobs are before they are read, but those of a waiting list
-- have at most about
-- 128 KiB. So the first command asks for few.
-- after: the last entry of the first waiting list that was read, or ''. most, most_weight: it stops as soon as jobs are as many, or weigh
-- as much. Then come the names of the waiting lists.
-- returns {1 if the last of the waiting lists that were read may have more jobs, else 0; for each of these: {entry, packed fields, entry,
--   ...}, or nil if its key has another type}
local waitlists = unpack(KEYS)
local after, most, most_weight = unpack(ARGV)
most, most_weight = tonumber(most), tonumber(most_weight)
local AT_ONCE = 16
local answer, count, weight, at_once = { 0 }, 0, 0, 2
for at = 4, #ARGV do
  if count >= most or weight >= most_weight then break end
  local waitlist, jobs, is_end = waitlist_key(waitlists, ARGV[at]), {}, false
  local from = at == 4 and after ~= '' and '(' .. after or '-'
  while not is_end and count < most and weight < most_weight do
    local page = redis.pcall('XRANGE', waitlist, from, '+', 'COUNT', at_once)
    if page.err then
      if not string.find(page.err, 'WRONGTYPE', 1, true) then error(page) end
      jobs, page = false, {}
    end
    for _, entry in ipairs(page) do
      table.insert(entry[2], 1, 'normal')
      local packed = cmsgpack.pack(entry[2])
      add_pair(jobs, entry[1], packed)
      count, weight = count + 1, weight + #packed + FIELD_WEIGHT * #entry[2] / 2
      from = '(' .. entry[1]
    end
    is_end = #page < at_once
    at_once = is_end and at_once or math.min(2 * at_once, AT_ONCE)
  end
  answer[#answer + 1] = jobs
  answer[1] = is_end and 0 or 1
end
return answer
