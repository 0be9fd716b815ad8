-- admit: may these attempts pass their gates now? All gates of a job let it pass, or nothing is changed. A job that passes
-- holds its places until it ends; see drain. A job that holds them already passes again, unless a gate was closed or a breaker
-- opened since a waiting list let it out; then it gives its places back.
-- After the generation of each job come the names of its gates.
-- returns {1, {an answer or an error for each job}}: 1 start, 0 stale, {2, n} its n-th gate refuses it
local gates, waitlists, stream, high, normal, low = unpack(KEYS, 1, 6)
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
  gate.has_waitlist, gate.has_place, gate.passed = redis.call('HEXISTS', waitlists, name) == 1, {}, {}
  if gate.limits then
    for nth, since in ipairs(redis.call('HMGET', gate.held, unpack(askers[name]))) do
      gate.has_place[askers[name][nth]] = since
    end
  end
  opened[name] = gate
  return gate
end
local function pass(gate, member)
  if not gate.limits then return end
  if gate.has_place[member] then
    forget_unstarted(gate, member)
    if gate.tries then try_with(gate, member) end
    return
  end
  if gate.interval or gate.breaker then
    pass_gate(gate, member, now)
  else
    gate.taken = gate.taken + 1
    add_pair(gate.passed, member, ms_text(now))
  end
  gate.has_place[member] = true
end
-- A job that is refused goes to a waiting list, and its entry ends.
local function give_back(member, first, last)
  for nth = first, last do
    local name = ARGV[nth]
    local gate = opened[name]
    if not gate then
      redis.pcall('HDEL', gate_key(gates, 'held', name), member)
      redis.pcall('HDEL', gate_key(gates, 'unstarted', name), member)
    elseif gate.has_place[member] then
      gate.taken, gate.has_place[member] = gate.taken - redis.call('HDEL', gate.held, member), nil
      forget_unstarted(gate, member)
    end
  end
end
local answers = each_job(stream, consumer, FIRST_KEY, KEYS_EACH, function(held, entry, _, _, first, last)
  if not held then return 0 end
  local member = lane .. ' ' .. entry
  for of_gate = first, last do
    local gate = opened[ARGV[of_gate]] or open(ARGV[of_gate])
    -- Those that wait already go first.
    local has_place = gate.limits and gate.has_place[member]
    local is_barred = has_place and is_stopped(gate, member, now)
      or not has_place and (gate.limits or gate.closed) and (gate.has_waitlist or is_refused(gate, now))
    if is_barred then
      give_back(member, first, last)
      return { 2, of_gate - first + 1 }
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
