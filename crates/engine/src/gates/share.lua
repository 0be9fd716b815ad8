-- share: share a queue between the values of a field, so that a flood of one value delays no other. As long as no more jobs
-- wait in a lane than its window, nothing is done. Otherwise, those that wait are sorted into waiting lists, one for each value, and
-- come back in turn, each value as many at a time as its weight, until the window is full. The first jobs of a value that
-- has no room stay where they are. Sent twice, it goes on.
-- If the queue is not shared any more, all waiting lists are emptied.
-- fair: for each lane, up to which entry it is sorted, the first and the last of those that were let out behind that entry,
-- and how many jobs the first waiting list of its ring may still let out. Each ring: the waiting lists of the lane, in the order of their
-- turns. window: '' to empty waiting lists that are not needed any more, and nothing else. most, most_weight: how many jobs are looked
-- at or move, and roughly their weight; see weigh.
-- It reads no entry of a lane whose size its caller does not know: even to look at one of 8 MiB takes long. So then comes for
-- each lane what the caller has seen of it: the mark that it was told or '', the last entry that it saw or '', 1 if there
-- were more, the number of further values, and these: the first and the last entry of each run of those that may be read.
-- Then names of waiting lists, which form the rings again if they were lost.
-- returns {jobs that moved to waiting lists, jobs that left waiting lists, 1 if more may move now or 0, 1 if there are waiting lists or 0,
-- the first
--   error or '', then for each lane '', or a mark if the caller must look before more can be sorted: after which entry, and
--   the last one that had been let out by then}
local gates, waitlists, locations, dead, fair = unpack(KEYS, 1, 5)
local window, most, most_weight = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local FIRST_STREAM, FIRST_RING, FIRST_SEEN, SEEN_EACH = 6, 9, 4, 4
-- Beyond MOST_WAITLISTS in a lane, further values share SHARED_WAITLISTS more.
local MOST_WAITLISTS, SHARED_WAITLISTS = 1000, 16
local now, held_back, left, more, failed = now_ms(), 0, 0, 0, ''
-- What this call has done of `most` and `most_weight`.
local handled, handled_weight = 0, 0
local known, marks, seen, first_name = {}, { '', '', '' }, {}, FIRST_SEEN
for nth = 1, 3 do
  local mark, to, has_more, count = unpack(ARGV, first_name, first_name + SEEN_EACH - 1)
  local first, from, out = first_name + SEEN_EACH, string.match(mark, '^(%S+) (%S*)$')
  first_name = first + tonumber(count)
  seen[nth] = { from = from, out = out, to = to, has_more = has_more == '1', first = first, last = first_name - 1 }
end
-- Nobody reads a closed queue.
if gate_of(gates, 'queue', now).closed then return { 0, 0, 0, 0, '', '', '', '' } end
local read, reply = pcall(cjson.decode, redis.call('HGET', gates, 'f:fair') or '')
local by = read and type(reply) == 'table' and type(reply.by) == 'string' and reply.by or nil
local weights = by and type(reply.weights) == 'table' and reply.weights or {}
-- What the gate of the whole queue does not let pass has its place in the windows, or it would pass all that is shared.
local queued = redis.pcall('XLEN', waitlist_key(gates, 'queue'))
queued = type(queued) == 'number' and queued or 0
local function fail(text)
  if failed == '' then failed = text end
end
local function weight_of(name)
  local weight = tonumber(weights[string.match(name, '^fair:%a+:=(.*)$') or ''] or 1) or 1
  return math.max(1, math.min(weight, 100))
end
-- The waiting list for a value. Values that a name cannot have share one.
local function waitlist_of(lane, ring, value)
  local kind = value == '' and '' or is_value(value) and '=' .. value or '?'
  local name = 'fair:' .. lane .. ':' .. kind
  if known[name] == nil then known[name] = redis.call('HEXISTS', waitlists, name) == 1 end
  if known[name] or redis.call('LLEN', ring) < MOST_WAITLISTS then return name end
  local nth = tonumber(string.sub(redis.sha1hex(value), 1, 4), 16) % SHARED_WAITLISTS
  name = string.format('fair:%s:#%d', lane, nth)
  if known[name] == nil then known[name] = redis.call('HEXISTS', waitlists, name) == 1 end
  return name
end
-- The fields of an entry for its waiting list, with the identity that the entry gave the job, its id, its generation, and its value; then
-- the token of its large fields if they are those of another generation; nil if only a worker can tell what it is.
local function for_waitlist(entry, list, lane)
  local own, fields, value = {}, {}, ''
  for at = 1, #list, 2 do
    local field = list[at]
    if field == by and value == '' then value = list[at + 1] end
    -- The last one counts, as for a worker.
    own[field] = list[at + 1]
    if field ~= 'lane' then add_pair(fields, field, list[at + 1]) end
  end
  if not own.type or own.created_ms and not own.life then return end
  if own.id and #own.id > 128 then return end
  -- An entry that holds places in gates is in the lane `high` and names its own lane; see drain. One that a worker gave back
  -- may be in any lane. Of those that the fleet did not write, the field says nothing.
  if own.lane and own.life and (lane == 'high' or own.lane ~= lane) then return end
  local name = lane == 'normal' and entry or entry .. '-' .. lane
  local id, generation = own.id or name, own.life or name
  if not own.id then add_pair(fields, 'id', id) end
  if not own.life then add_pair(fields, 'life', generation) end
  if not own.created_ms then add_pair(fields, 'created_ms', string.match(entry, '^%d+')) end
  add_pair(fields, 'lane', lane)
  local token, of = string.match(own.offloaded or '', '^((%S*)%-%x+) ')
  return fields, id, generation, value, of ~= generation and token or nil
end
-- The entries that the caller has seen in a lane and that may be read, after this one.
local function read_seen(stream, looked, from)
  local page = {}
  for at = looked.first, looked.last, 2 do
    local first, last = ARGV[at], ARGV[at + 1]
    if is_up_to(first, from) then first = '(' .. from end
    if not is_up_to(last, from) then
      for _, entry in ipairs(redis.call('XRANGE', stream, first, last)) do
        page[#page + 1] = entry
        handled, handled_weight = handled + 1, handled_weight + weigh(entry[2])
      end
    end
  end
  return page
end
-- Sorts what has come to a lane. Returns how many jobs wait there now, or nil if there may be more to sort.
local function sort(nth, lane, stream, ring, last, waiting)
  local noted, out = unpack(redis.call('HMGET', fair, lane, 'out:' .. lane))
  local looked, first_out, last_out = seen[nth], string.match(out or '', '^(%S+) (%S+)$')
  local from = noted and string.find(noted, '^%d+%-%d+$') and not is_up_to(noted, last) and noted or last
  -- Another worker may have sorted these meanwhile, and before this lane was lost, it may have had other entries.
  if not looked.from or not is_up_to(looked.from, from) or looked.to ~= '' and is_up_to(looked.to, from) then
    marks[nth], more = from .. ' ' .. (last_out or ''), 1
    return nil
  end
  local page, to = read_seen(stream, looked, from), looked.to == '' and from or looked.to
  -- Only the last ones that were let out are known. No others may be before a caller has seen these.
  local is_end = not looked.has_more and looked.out == (last_out or '')
  -- What is sorted and still there has its place in the window.
  local ready = is_end and math.max(0, waiting - #page) + queued or window
  local gone, spots, stay = {}, {}, {}
  for _, item in ipairs(page) do
    local entry, fields, id, generation, value, copied = item[1], nil, nil, nil, nil, nil
    local was_out = first_out and is_up_to(first_out, entry) and is_up_to(entry, last_out)
    if not was_out then fields, id, generation, value, copied = for_waitlist(entry, item[2], lane) end
    local name = fields and waitlist_of(lane, ring, value)
    local moved = nil
    if fields and (known[name] or ready >= window or (stay[name] or 0) >= weight_of(name)) then
      moved = append(waitlist_key(gates, name), fields, 1, #fields)
      if type(moved) == 'table' then
        fail(moved.err)
        moved = nil
      end
    end
    if moved then
      if not known[name] then
        redis.call('RPUSH', ring, name)
        redis.call('HSETNX', waitlists, name, ms_text(now))
        known[name] = true
      end
      gone[#gone + 1] = entry
      spots[#spots + 1] = { id, generation, moved, name }
      name_entry(gates, id, generation, moved, 'lane', lane)
      -- Its new entry does not tell when it was copied; see leave_to_copies.
      if copied then redis.pcall('ZADD', copied_key(dead), '+inf', copied) end
    else
      ready = ready + 1
      if name then stay[name] = (stay[name] or 0) + 1 end
    end
  end
  if gone[1] then
    redis.call('XDEL', stream, unpack(gone))
    for _, spot in ipairs(spots) do note_location(locations, unpack(spot)) end
  end
  if looked.to ~= '' then redis.call('HSET', fair, lane, to) end
  held_back = held_back + #gone
  if not is_end then
    more = 1
    return nil
  end
  return waiting - #gone
end
-- Moves the first job of a waiting list back to its lane. Returns its weight, or nil if Redis refuses that, and its entry there, if
-- it is a job.
local function move_out(lane, stream, name, waitlist)
  local head = redis.call('XRANGE', waitlist, '-', '+', 'COUNT', 1)[1]
  local fields, id, generation, weight = {}, '', nil, weigh(head[2])
  for at = 1, #head[2], 2 do
    local field, value = head[2][at], head[2][at + 1]
    if field == 'id' then id = value elseif field == 'life' then generation = value end
    if field ~= 'lane' then add_pair(fields, field, value) end
  end
  local moved = append(stream, fields, 1, #fields)
  if type(moved) ~= 'table' then
    name_entry(gates, id, generation, moved, 'lane', lane)
  elseif make_entry(#fields) then
    return fail(moved.err)
  else
    table.insert(fields, 1, lane)
    local letter = set_aside(dead, cmsgpack.pack(fields), head[1], 'an entry of the waiting list ' .. name .. ' is not a job', now)
    if type(letter) == 'table' then return fail(letter.err) end
  end
  redis.call('XDEL', waitlist, head[1])
  forget_location(locations, id, generation, head[1], name)
  return weight, type(moved) == 'string' and moved or nil
end
-- Lets jobs out of waiting lists in turn, at most `free`.
local function let_out(lane, stream, ring, free)
  local credit, out, passed = tonumber(redis.call('HGET', fair, 'credit:' .. lane) or 0) or 0, 0, 0
  local turns, first, last = 2 * most, nil, nil
  while out < free and handled < most and handled_weight < most_weight and passed < turns do
    local name = redis.call('LINDEX', ring, 0)
    if not name then break end
    local waitlist = waitlist_key(gates, name)
    local length = redis.pcall('XLEN', waitlist)
    local weight, moved = nil, nil
    if credit < 1 then credit = weight_of(name) end
    if type(length) == 'table' then
      fail(length.err)
    elseif length > 0 then
      weight, moved = move_out(lane, stream, name, waitlist)
    end
    passed, first, last = passed + 1, first or moved, moved or last
    if weight then
      out, length, credit = out + 1, length - 1, credit - 1
      handled, handled_weight = handled + 1, handled_weight + weight
    end
    if length == 0 then
      redis.call('LPOP', ring)
      redis.call('DEL', waitlist)
      redis.call('HDEL', waitlists, name)
      credit = 0
    elseif not weight or credit < 1 then
      redis.call('RPUSH', ring, redis.call('LPOP', ring))
      credit = 0
    end
  end
  redis.call('HSET', fair, 'credit:' .. lane, string.format('%d', credit))
  -- They had their turn. What has come since the caller looked is before them, and must still be sorted.
  if by and last then redis.call('HSET', fair, 'out:' .. lane, first .. ' ' .. last) end
  left = left + out
  if out < free and (handled >= most or handled_weight >= most_weight) then more = 1 end
end
local has_waitlists, is_busy = 0, false
local lanes = { 'high', 'normal', 'low' }
for turn = 0, 2 do
  -- Each lane comes first in a third of all calls.
  local nth = (now + turn) % 3 + 1
  local lane = lanes[nth]
  local stream, ring = KEYS[FIRST_STREAM + nth - 1], KEYS[FIRST_RING + nth - 1]
  local group, turns = fleet_group(redis.pcall('XINFO', 'GROUPS', stream)), redis.call('LLEN', ring)
  -- If a ring was lost, and has got new waiting lists since, its former waiting lists are looked for one at a time.
  local is_lost, sought = turns == 0, first_name + now % math.max(1, #ARGV - first_name + 1)
  for at = first_name, #ARGV do
    local is_own = (is_lost or at == sought) and string.match(ARGV[at], '^fair:(%a+):') == lane
    if is_own and redis.call('HEXISTS', waitlists, ARGV[at]) == 1 and (is_lost or not redis.call('LPOS', ring, ARGV[at])) then
      turns = redis.call('RPUSH', ring, ARGV[at])
    end
  end
  local waiting = group and math.max(0, redis.call('XLEN', stream) - group.pending) or 0
  local is_shared = by and window
  if group and (turns > 0 and (is_shared or not by) or is_shared and waiting > window) then
    is_busy = true
    -- Nothing has moved if one of these fails. Redis allows them even when it is out of memory, and then admits the other
    -- writes. A moved job takes hardly more memory than before.
    redis.call('HDEL', locations, '')
    redis.call('HDEL', waitlists, '')
    redis.call('HDEL', fair, '')
    redis.call('XDEL', stream, NO_ENTRY)
    local stays = waiting
    if handled >= most or handled_weight >= most_weight then
      more, stays = 1, nil
    elseif by then
      stays = sort(nth, lane, stream, ring, group['last-delivered-id'], waiting)
    end
    local free = stays and (by and window - stays - queued or most + 1) or 0
    if free > 0 then let_out(lane, stream, ring, free) end
  end
  if redis.call('LLEN', ring) > 0 then has_waitlists = 1 end
end
if has_waitlists == 0 and (not is_busy or not by) then redis.call('DEL', fair) end
return { held_back, left, more, has_waitlists, failed, unpack(marks) }
