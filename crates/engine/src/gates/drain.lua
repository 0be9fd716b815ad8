-- drain: give back what attempts held of their gates, and let waiting jobs out of waiting lists while their gates let them pass. A
-- job that a limit has let pass goes to the lane that is read first, and holds its places there. Any other goes back to
-- its own lane. A job that another of its gates refuses goes to that gate's waiting list, so it holds up nobody here. If that goes
-- on, it claims a place in all of them.
-- locations: see note_location. most_jobs, most_weight: how many jobs leave waiting lists; see weigh. ends: how many attempts give
-- back. Then for each of these: its gate, its entry as '<lane> <entry>', and how it ended, for the gate's breaker, or '';
-- 'unstarted' gives back its start, too.
-- Then the names of waiting lists.
-- returns {jobs that left, ms after which a gate may let the next one pass or -1, 1 if more may leave now or 0, the first
--   error or ''}
local gates, waitlists, locations, dead, high, normal, low = unpack(KEYS)
local most_jobs, most_weight, ends = unpack(ARGV, 1, 3)
local FIRST_END, VALUES_EACH = 4, 3
local lanes, now, opened = { high = high, normal = normal, low = low }, now_ms(), {}
-- A job may have to pass ten gates. The most that one call asks or passes. An end that a gate counts takes about half as long as
-- to pass one.
local MOST_GATES, OF_END, asked = 80, 0.5, 0
-- The most entries that one call passes over because Redis refuses to move them.
local MOST_SKIPPED = 20
-- After moving from waiting list to waiting list this often, a job claims a place in all of its gates.
local CLAIM_AFTER = 2
local first_waitlist = FIRST_END + VALUES_EACH * tonumber(ends)
local left, weight, skipped, passed_over, wait, more, failed = 0, 0, 0, 0, -1, 0, ''
most_jobs, most_weight = tonumber(most_jobs), tonumber(most_weight)
-- Redis allows this even when it is out of memory, and then admits the other writes: what waits here must get out.
redis.pcall('HDEL', waitlists, '')
local function try(what, ...)
  local done, error_text = pcall(what, ...)
  if not done and failed == '' then failed = type(error_text) == 'table' and error_text.err or tostring(error_text) end
  return done
end
local function gate_named(name)
  opened[name] = opened[name] or open_gate(gates, name, lanes, now)
  return opened[name]
end
local function give_back(name, member, how)
  if redis.call('HDEL', gate_key(gates, 'held', name), member) == 0 then return end
  asked = asked + OF_END
  local gate = gate_of(gates, name, now)
  local kept = how == 'unstarted' and gate.interval and tonumber(redis.call('GET', gate.rate) or '')
  if kept then
    local next = kept - gate.interval
    redis.call('SET', gate.rate, string.format('%.3f', next), 'PX', math.ceil(math.max(next - now, 0)) + 1000)
  end
  if gate.breaker then note_end(gate, member, how, now) end
  forget_unstarted(gate, member)
end
-- The job is in another stream by now, so nothing here may fail.
local function leave(name, id, generation, entry)
  redis.call('XDEL', waitlist_key(gates, name), entry)
  if id then forget_location(locations, id, generation, entry, name) end
end
-- How often a job has moved from waiting list to waiting list, and since when it has waited in them, in ms.
local function wandering(moves, entry)
  local came = tonumber(string.match(entry, '^%d+'))
  local count, since = string.match(moves or '', '^(%d+) ?(%d*)$')
  return tonumber(count or '') or 0, math.min(tonumber(since or '') or came, came)
end
-- What a job of a waiting list says: its fields for a lane, its own lane, its gates, its id, its generation, and how often it has moved
-- from waiting list to waiting list.
local function read_job(name, list)
  local fields, own_lane, mine, id, generation, moves = {}, 'normal', { gate_named(name) }, nil, nil, 0
  for at = 1, #list, 2 do
    local field, value = list[at], list[at + 1]
    if field == 'lane' then
      own_lane = lanes[value] and value or own_lane
    elseif field == 'room_moves' then
      moves = wandering(value, '0-0')
    elseif field == 'room_gates' then
      for other in string.gmatch(value, '[^\n]+') do
        if other ~= name then mine[#mine + 1] = gate_named(other) end
      end
    else
      add_pair(fields, field, value)
      if field == 'id' then id = value elseif field == 'life' then generation = value end
    end
  end
  return fields, own_lane, mine, id, generation, moves
end
local function to_lane(fields, own_lane, mine, id, generation)
  local lane, is_counted = own_lane, false
  for _, gate in ipairs(mine) do
    if gate.limits then lane, is_counted = 'high', true end
  end
  -- This also tells share that the entry holds places.
  if is_counted then add_pair(fields, 'lane', own_lane) end
  local entry = must_append(lanes[lane], fields, 1, #fields)
  -- The job is in its lane by now. Whatever fails, it must leave its waiting list.
  for _, gate in ipairs(mine) do
    try(pass_gate, gate, lane .. ' ' .. entry, now)
    try(note_unstarted, gate, lane .. ' ' .. entry)
  end
  name_entry(gates, id, generation, entry, 'lane', lane)
end
local function bury(fields, own_lane, id)
  table.insert(fields, 1, own_lane)
  local letter = set_aside(dead, cmsgpack.pack(fields), id or '', 'these fields do not form an entry', now)
  if type(letter) == 'table' then error(letter.err) end
end
-- Moves a job from one waiting list to another, or to the end of its own.
local function to_waitlist(refusing, list, id, generation, moves, name, entry)
  local counted, before = {}, nil
  for at = 1, #list, 2 do
    if list[at] == 'room_moves' then before = list[at + 1] else add_pair(counted, list[at], list[at + 1]) end
  end
  local _, since = wandering(before, entry)
  -- An entry that is full is not counted.
  if make_entry(#counted + 2) then add_pair(counted, 'room_moves', string.format('%d %s', moves, ms_text(since))) end
  local moved = must_append(waitlist_key(gates, refusing), counted, 1, #counted)
  -- A waiting list that has jobs keeps its time: a search goes on from there.
  try(redis.call, 'HSETNX', waitlists, refusing, ms_text(since))
  leave(name, id, generation, entry)
  if id then note_location(locations, id, generation, moved, refusing) end
  name_entry(gates, id, generation, moved)
  return moved
end
-- A job that cannot be moved goes to the end of its waiting list: the next call meets those that waited behind it.
local function put_last(name, entry, list)
  local own = {}
  for at = 1, #list, 2 do own[list[at]] = list[at + 1] end
  return to_waitlist(name, list, own.id, own.life, (wandering(own.room_moves, entry)), name, entry)
end
-- Takes one job out of a waiting list whose gate lets it pass. claim: that of the job, if it has one.
local function move(name, entry, list, claim)
  local fields, own_lane, mine, id, generation, moves = read_job(name, list)
  local refusing = nil
  for nth = 2, #mine do
    if not refusing and (is_refused(mine[nth], now, claim) or is_ahead(mine[nth])) then refusing = mine[nth].name end
  end
  asked = asked + #mine
  if not make_entry(#list) or not make_entry(#fields) then
    bury(fields, own_lane, id)
    leave(name, id, generation, entry)
  elseif refusing then
    local moved = to_waitlist(refusing, list, id, generation, moves + 1, name, entry)
    -- It has moved, whatever keeps it from claiming places.
    if moves + 1 > CLAIM_AFTER then try(claim_places, gates, mine, moved, refusing, now) end
  else
    to_lane(fields, own_lane, mine, id, generation)
    leave(name, id, generation, entry)
  end
  left, weight = left + 1, weight + weigh(list)
end
-- Takes one job out of a waiting list; false if Redis refuses to move it.
local function can_move(name, entry, list, claim)
  if try(move, name, entry, list, claim) then return true end
  skipped, passed_over = skipped + 1, passed_over + weigh(list)
  return false
end
-- True once this call has done as much as one call may, in whichever waiting lists.
local function is_spent()
  return left >= most_jobs or weight >= most_weight or asked >= MOST_GATES or skipped >= MOST_SKIPPED or passed_over >= most_weight
end
local function wait_for(after)
  if after > 0 and (wait < 0 or after < wait) then wait = after end
end
-- Lets out the job that claims a place, wherever it waits, once all of its gates have one.
local function serve(gate)
  local claim = gate.claim
  local entry, waitlist, names = string.match(claim, '^(%d+%-%d+)\n([^\n]+)\n(.*)$')
  names = names or gate.name
  for name in string.gmatch(names, '[^\n]+') do
    local after = is_refused(gate_named(name), now, claim)
    if after then return wait_for(after) end
  end
  local job = entry and redis.call('XRANGE', waitlist_key(gates, waitlist), entry, entry)[1]
  if job then can_move(waitlist, entry, job[2], claim) end
  for name in string.gmatch(names, '[^\n]+') do
    redis.call('DEL', gate_key(gates, 'claim', name))
    gate_named(name).claim = nil
  end
end
local function let_out(name)
  local waitlist, first, from, last = waitlist_key(gates, name), gate_named(name), '-', {}
  redis.call('XDEL', waitlist, NO_ENTRY)
  if first.claim and not is_spent() then serve(first) end
  while not is_spent() do
    if redis.call('XLEN', waitlist) == 0 then
      redis.call('DEL', waitlist)
      return redis.call('HDEL', waitlists, name)
    end
    -- This comes before a job is read: it may have 8 MiB.
    local after = is_refused(first, now)
    if after then return wait_for(after) end
    if is_ahead(first) then return end
    local head = redis.call('XRANGE', waitlist, from, '+', 'COUNT', 1)[1]
    if not head or last[head[1]] then return end
    if not can_move(name, head[1], head[2]) then
      from = '(' .. head[1]
      local is_put, moved = pcall(put_last, name, head[1], head[2])
      if is_put then last[moved] = true end
    end
  end
  if left > 0 then more = 1 end
end
-- Places that say nothing but that they are taken are given back together.
local bare = {}
for at = FIRST_END, first_waitlist - 1, VALUES_EACH do
  local name, member, how = unpack(ARGV, at, at + VALUES_EACH - 1)
  if how == '' then
    bare[name] = bare[name] or {}
    bare[name][#bare[name] + 1] = member
  else
    try(give_back, name, member, how)
  end
end
for name, members in pairs(bare) do try(redis.call, 'HDEL', gate_key(gates, 'held', name), unpack(members)) end
-- Nobody reads a closed queue.
if first_waitlist > #ARGV or gate_of(gates, 'queue', now).closed then return { left, wait, more, failed } end
-- A job that waits gets out even if nobody can tell where it is.
try(redis.call, 'HDEL', locations, '')
for at = first_waitlist, #ARGV do
  -- What waits for a worker that knows its type, or for its turn, waits for no gate; see take and share.
  local is_gate = string.sub(ARGV[at], 1, 8) ~= 'unknown:' and string.sub(ARGV[at], 1, 5) ~= 'fair:'
  -- A job that claims a place may wait in the waiting list of another of its gates.
  local is_claimed = is_gate and redis.call('EXISTS', gate_key(gates, 'claim', ARGV[at])) == 1
  if is_gate and (is_claimed or redis.call('HEXISTS', waitlists, ARGV[at]) == 1) then try(let_out, ARGV[at]) end
end
return { left, wait, more, failed }
