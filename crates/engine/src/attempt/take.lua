-- take: move jobs from the head of the waiting list of a type to a lane, and deliver them there to this consumer, before anybody
-- else can get them. That needs a lane in which nothing waits. If there is none, they go to the end of the lane `high`, and
-- whichever worker reads them there gets them; one that does not know the type parks them again. A worker that ends jobs
-- takes only those that have waited for too long, and only if it gets them.
-- Sent twice, it takes further jobs, as a read does. If the reply is lost, the jobs are pending on this consumer, which
-- finds them there; if it dies, its entries are claimed like all others.
-- gates: the rules. asked: waiting list to when a worker that knows its type last asked. name: that
-- of the waiting list. most, most_weight: the most jobs and, roughly, their weight; see weigh. waited_ms: '' for a worker that knows
-- the type; otherwise for how long each job must have waited. Then quiet_ms: for how long no worker may have known the type,
-- and until_ms: the latest time at which each job may have come, because the clock may have been set forward since.
-- returns {jobs that left the waiting list, 1 if it has more or 0, the lane in which they were delivered or '', entry id, ...}
local waitlist, gates, waitlists, locations, asked, dead, high, normal, low = unpack(KEYS)
local name, consumer, most, most_weight, waited_ms, quiet_ms, until_ms = unpack(ARGV)
local ends, now, lane = waited_ms ~= '', now_ms(), idle_lane({ high, normal, low })
local names, latest = { [high] = 'high', [normal] = 'normal', [low] = 'low' }, nil
if ends then
  local since, last = redis.call('HGET', waitlists, name), redis.call('HGET', asked, name)
  local quiet = now - math.max(tonumber(since or '') or 0, tonumber(last or '') or 0)
  if not lane or quiet < tonumber(quiet_ms) then return { 0, has_more(waitlist, waitlists, asked, name), '' } end
  latest = math.min(now - tonumber(waited_ms), tonumber(until_ms))
end
-- Returns nothing, and fails if the lane has no group, before anything has moved.
redis.call('XREADGROUP', 'GROUP', 'fleet', consumer, 'COUNT', 1, 'STREAMS', lane or high, '18446744073709551614-0')
-- Nothing has moved if one of these fails. Redis allows them even when it is out of memory, and then admits the other
-- writes. A moved job takes no more memory than before.
redis.call('HDEL', locations, '')
redis.call('HDEL', waitlists, '')
redis.call('HDEL', asked, '')
redis.call('XDEL', waitlist, NO_ENTRY)
local moved, gone, ids, generations, refused = 0, {}, {}, {}, nil
each_in_waitlist(waitlist, tonumber(most), tonumber(most_weight), function(entry, fields)
  local kept, id, generation, since = {}, '', nil, tonumber(string.match(entry, '^%d+'))
  for at = 1, #fields, 2 do
    local field, value = fields[at], fields[at + 1]
    if field == 'id' then id = value elseif field == 'life' then generation = value end
    if field == 'unroutable_ms' then since = math.min(since, tonumber(value) or since) end
    -- A worker that knows the type has the job.
    if field ~= 'room_gates' and (ends or field ~= 'unroutable_ms') then add_pair(kept, field, value) end
  end
  if ends and since > latest then return false end
  local added = append(lane or high, kept, 1, #kept)
  if type(added) ~= 'table' then
    moved = moved + 1
    name_entry(gates, id, generation, added, 'lane', names[lane or high])
  elseif make_entry(#kept) then
    refused = added.err
    return false
  else
    -- It blocks nothing, even if it cannot be set aside.
    table.insert(fields, 1, 'normal')
    local why = 'an entry of the waiting list ' .. name .. ' is not a job'
    if type(set_aside(dead, cmsgpack.pack(fields), entry, why, now)) == 'table' then return end
  end
  gone[#gone + 1], ids[#ids + 1], generations[#generations + 1] = entry, id, generation or ''
end)
if refused and not gone[1] then return redis.error_reply(refused) end
if gone[1] then
  redis.call('XDEL', waitlist, unpack(gone))
  -- Another generation of the id may be in a waiting list, too.
  for nth, location in ipairs(redis.call('HMGET', locations, unpack(ids))) do
    if location ~= gone[nth] .. ' ' .. name then ids[nth] = second_name(ids[nth], generations[nth]) end
  end
  redis.call('HDEL', locations, unpack(ids))
end
local answer = { #gone, has_more(waitlist, waitlists, asked, name), '' }
if lane and moved > 0 then
  local read = redis.call('XREADGROUP', 'GROUP', 'fleet', consumer, 'COUNT', moved, 'STREAMS', lane, '>')
  answer[3] = names[lane]
  for _, entry in ipairs(read and read[1][2] or {}) do answer[#answer + 1] = entry[1] end
end
return answer
