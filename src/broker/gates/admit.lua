-- admit: may these attempts pass their gates now? All gates of a job let it pass, or nothing is changed. A job that passes
-- holds its places until it ends; see drain. A job that holds them already passes again.
-- After the life of each job come the names of its gates.
-- returns {1, {an answer or an error for each job}}: 1 start, 0 stale, {2, n} its n-th gate refuses it
local gates, rooms, stream, high, normal, low = unpack(KEYS, 1, 6)
local consumer, lane = unpack(ARGV, 1, 2)
local FIRST_KEY, KEYS_EACH = 7, 0
local lanes, now, opened = { high = high, normal = normal, low = low }, now_ms(), {}
return each_job(stream, consumer, FIRST_KEY, KEYS_EACH, function(held, entry, _, _, first, last)
  if not held then return 0 end
  local member = lane .. ' ' .. entry
  for at = first, last do
    local name = ARGV[at]
    local gate = opened[name] or open_gate(gates, name, lanes, now)
    opened[name] = gate
    if gate.closed or gate.limits and redis.call('HEXISTS', gate.held, member) == 0 then
      -- Those that wait already go first.
      if redis.call('HEXISTS', rooms, name) == 1 or is_refused(gate, now) then return { 2, at - first + 1 } end
    end
  end
  for at = first, last do pass_gate(opened[ARGV[at]], member, now) end
  return 1
end)
