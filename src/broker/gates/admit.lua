-- admit: may these attempts pass their gates now? All gates of a job let it pass, or nothing is changed. A job that passes
-- holds its places until it ends; see drain. A job that holds them already passes again.
-- After the life of each job come the names of its gates.
-- returns {1, {an answer or an error for each job}}: 1 start, 0 stale, {2, n} its n-th gate refuses it
local gates, rooms, stream, high, normal, low = unpack(KEYS, 1, 6)
local consumer, lane = unpack(ARGV, 1, 2)
local FIRST_KEY, KEYS_EACH, FIRST_JOB = 7, 0, 3
local lanes, now, opened = { high = high, normal = normal, low = low }, now_ms(), {}
-- The entries that have to pass each gate, as those that hold a place in it are named.
local askers, at = {}, FIRST_JOB
while at <= #ARGV do
  local last, member = at + tonumber(ARGV[at]), lane .. ' ' .. ARGV[at + 1]
  for of_gate = at + 3, last do
    local name = ARGV[of_gate]
    askers[name] = askers[name] or {}
    askers[name][#askers[name] + 1] = member
  end
  at = last + 1
end
-- Reads all that is known about a gate and its askers, once for all of them.
local function open(name)
  local gate = open_gate(gates, name, lanes, now)
  gate.has_room, gate.has_place, gate.passed = redis.call('HEXISTS', rooms, name) == 1, {}, {}
  if gate.limits then
    for nth, since in ipairs(redis.call('HMGET', gate.held, unpack(askers[name]))) do
      gate.has_place[askers[name][nth]] = since
    end
  end
  opened[name] = gate
  return gate
end
local function pass(gate, member)
  if not gate.limits or gate.has_place[member] then return end
  if gate.interval or gate.breaker then
    pass_gate(gate, member, now)
  else
    gate.taken = gate.taken + 1
    add_pair(gate.passed, member, ms_text(now))
  end
  gate.has_place[member] = true
end
local answers = each_job(stream, consumer, FIRST_KEY, KEYS_EACH, function(held, entry, _, _, first, last)
  if not held then return 0 end
  local member = lane .. ' ' .. entry
  for of_gate = first, last do
    local gate = opened[ARGV[of_gate]] or open(ARGV[of_gate])
    if gate.closed or gate.limits and not gate.has_place[member] then
      -- Those that wait already go first.
      if gate.has_room or is_refused(gate, now) then return { 2, of_gate - first + 1 } end
    end
  end
  for of_gate = first, last do pass(opened[ARGV[of_gate]], member) end
  return 1
end)
-- A place in a gate that only bounds concurrency says nothing but that it is taken.
for _, gate in pairs(opened) do
  if gate.passed[1] then
    redis.call('HSET', gate.held, unpack(gate.passed))
    keep_held(gate)
  end
end
return answers
