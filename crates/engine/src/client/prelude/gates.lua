-- gates: what decides whether a job may start, and the places that it holds until it ends.

-- A gate as one call sees it: whether it is closed, and its limits. Those that were set at run time replace those of the
-- configuration, and those of one value of a field replace those for each value. A gate whose rule cannot be read is closed.
local function gate_of(gates, name, now)
  local gate, limits = { gates = gates, name = name, held = gate_key(gates, 'held', name), closed = false }, nil
  for _, named in ipairs({ name, (string.match(name, '^(key:[^=]+)=')) }) do
    local reply = redis.call('HMGET', gates, 'p:' .. named, 'r:' .. named, 'c:' .. named)
    if reply[1] then
      local till = tonumber(string.match(reply[1], '^%d+ (%d+) ') or '0')
      if till == 0 or till > now then gate.closed = true end
    end
    limits = limits or reply[2] or reply[3]
  end
  local read = not limits or pcall(function()
    local reply = cjson.decode(limits)
    gate.concurrency = reply.concurrency and reply.concurrency + 0
    gate.interval = reply.rate and reply.rate.per_ms / reply.rate.n
    gate.burst = reply.rate and reply.rate.burst + 0
    if reply.rate and not (gate.interval > 0 and gate.interval < 1e9 and gate.burst >= 1) then error('no rate') end
    local breaker = reply.breaker
    if breaker then
      gate.breaker = { key = gate_key(gates, 'breaker', name), ratio = breaker.ratio + 0, min = breaker.min + 0,
        window = breaker.window_ms + 0, cooldown = breaker.cooldown_ms + 0 }
    end
  end)
  if not read then gate.closed = true end
  gate.rate = gate.interval and gate_key(gates, 'rate', name)
  gate.limits = gate.concurrency or gate.interval or gate.breaker
  return gate
end

-- Forgets those of some entries that hold a place in a gate, but have ended: their processes died before they gave it
-- back. An entry that is not pending is waiting to be read, or has ended. With `now`, one that is gone is noted in place of
-- the time of its start, and forgotten once it has been gone for GONE_MS. Returns how many were forgotten.
local function forget_ended(held, most, lanes, now)
  local forgotten = 0
  most = math.min(most, checks_left)
  if most <= 0 then return forgotten end
  checks_left = checks_left - most
  for _, member in ipairs(redis.call('HRANDFIELD', held, most)) do
    local lane, entry = string.match(member, '^(%a+) (%d+%-%d+)$')
    local stream = lane and lanes[lane]
    if not stream or not is_alive(stream, entry) then
      local gone = now and tonumber(string.match(redis.call('HGET', held, member), '^gone (%d+)$'))
      if not now or gone and now - gone >= GONE_MS then
        forgotten = forgotten + redis.call('HDEL', held, member)
      elseif not gone or gone > now then
        redis.call('HSET', held, member, 'gone ' .. ms_text(now))
      end
    end
  end
  return forgotten
end

-- How long a job claims places at most.
local CLAIM_MS = 30000

-- The job that claims the next place of a gate; nil if none does. Nobody claims one for longer than CLAIM_MS, so if more is
-- left, the server's clock was set back.
local function claim_of(gates, name)
  local key = gate_key(gates, 'claim', name)
  local claim = redis.pcall('GET', key)
  if type(claim) ~= 'string' then return nil end
  if redis.call('PTTL', key) > CLAIM_MS then redis.call('PEXPIRE', key, CLAIM_MS) end
  return claim
end

-- A gate with the number of its places that are taken and with the job that claims the next one, if any. A script
-- opens a gate once, after it has given back places, and takes others by pass_gate. Nobody gives back the place of an entry
-- that ended with its process, so a few of those that are taken are checked, and more if all are. If the places cannot be
-- read, this fails, before a job is anywhere else: whatever bounds a gate, its jobs take places.
local function open_gate(gates, name, lanes, now)
  local gate = gate_of(gates, name, now)
  gate.lanes = lanes
  if gate.limits then
    local held = redis.call('HLEN', gate.held)
    local is_full = gate.concurrency and held >= gate.concurrency
    -- A breaker counts the ends of those that hold a place, which may be given back a moment after the job's end.
    local is_patient = gate.breaker and not is_full and held < 1000
    gate.taken = held - forget_ended(gate.held, is_full and 4 or 1, lanes, is_patient and now or nil)
    gate.claim = claim_of(gates, name)
  end
  return gate
end

-- Whether a gate refuses that one more job starts now: false if not, otherwise the ms after which to ask again, or -1 if
-- nobody knows. Of a rate, one time is kept: when the next job starts if all start at even intervals. It may be ahead of
-- the clock by the burst, and is further ahead only if the clock went back or the rate was raised: then the burst is used
-- up but for one job. If nobody asked in time, up to a quarter of a second is made up for.
-- claim: that of the job itself. All others leave one place free for the job that claims it.
local function is_refused(gate, now, claim)
  if gate.closed then return -1 end
  local spare = gate.claim and gate.claim ~= claim and 1 or 0
  if gate.concurrency and gate.taken + spare >= gate.concurrency then return -1 end
  if gate.interval then
    local kept = tonumber(redis.call('GET', gate.rate) or '') or 0
    local ahead = gate.burst * gate.interval
    local slack = kept > 0 and math.min(gate.interval, 250) or 0
    -- What is kept is rounded.
    if kept > now + ahead + 1 then kept = now + ahead - gate.interval end
    gate.next = math.max(kept, now - slack)
    local early = gate.next - now - ahead + gate.interval * (1 + spare)
    if early > 0 then return math.ceil(early) end
  end
  return gate.breaker and is_tripped(gate, now)
end

-- The places of a value's gate are forgotten if no job has started there for 30 days. If a process dies just before it gives a place
-- back, nobody else looks at the places of a value that no other job has.
local function keep_held(gate)
  if string.sub(gate.name, 1, 4) == 'key:' then redis.call('PEXPIRE', gate.held, '2592000000') end
end

-- Lets an entry, named by its lane and its id, pass a gate that does not refuse it. It holds its place until it ends.
local function pass_gate(gate, member, now)
  if not gate.limits or redis.call('HSETNX', gate.held, member, ms_text(now)) == 0 then return end
  gate.taken = gate.taken + 1
  keep_held(gate)
  if gate.interval then
    local next = gate.next + gate.interval
    redis.call('SET', gate.rate, string.format('%.3f', next), 'PX', math.ceil(math.max(next - now, 0)) + 1000)
  end
  if gate.breaker and gate.tries then try_with(gate, member) end
end

-- True if this entry must not start, though a waiting list let it out and it holds its place: the gate was closed or its breaker opened
-- since.
local function is_stopped(gate, member, now)
  if gate.closed then return true end
  if not gate.breaker or redis.call('HGET', gate.breaker.key, 'probe') == member then return false end
  return is_tripped(gate, now) ~= false
end

-- The jobs that a waiting list of a gate with a rate has let out are in a hash until they start. While no worker reads them, a rate
-- lets out no more of them than start at once later: those of half a second, or its burst. True if it may let out no more.
-- Those that a worker has read, and those that somebody has cancelled or moved, do not count.
local function is_ahead(gate)
  if not gate.interval then return false end
  local key, most = gate_key(gate.gates, 'unstarted', gate.name), math.max(gate.burst, math.ceil(500 / gate.interval))
  local count = redis.call('HLEN', key)
  if count < most then return false end
  for _, member in ipairs(redis.call('HRANDFIELD', key, 4)) do
    local lane, entry = string.match(member, '^(%a+) (%d+%-%d+)$')
    local stream = lane and gate.lanes[lane]
    local waits = stream and not pending_of(stream, entry) and (checks_left < 1 or is_unread(stream, entry))
    checks_left = checks_left - 1
    if not waits then count = count - redis.call('HDEL', key, member) end
  end
  return count >= most
end

-- Notes that an entry which passed a gate has left its waiting list but not started, for a day at most.
local function note_unstarted(gate, member)
  if not gate.interval then return end
  local key = gate_key(gate.gates, 'unstarted', gate.name)
  redis.call('HSET', key, member, 1)
  redis.call('PEXPIRE', key, 86400000)
end

-- Notes that it has started, or gives back its place.
local function forget_unstarted(gate, member)
  if gate.interval then redis.call('HDEL', gate_key(gate.gates, 'unstarted', gate.name), member) end
end

-- Lets a job claim the next place of each of its gates, unless another job does so for one of them, or one of them is shut.
-- Each of two full gates refuses a job while the other one has a place for it: without a claim, none of them would ever let
-- it pass. Until it has passed, or for CLAIM_MS at most, others leave a place free. All claims of a job are made at once, so
-- no two jobs wait for each other.
local function claim_places(gates, mine, entry, waitlist, now)
  local names = {}
  for _, gate in ipairs(mine) do
    if gate.closed or gate.claim or gate.breaker and is_tripped(gate, now) then return end
    if gate.limits then names[#names + 1] = gate.name end
  end
  local claim = entry .. '\n' .. waitlist .. '\n' .. table.concat(names, '\n')
  for _, gate in ipairs(mine) do
    if gate.limits then
      redis.call('SET', gate_key(gates, 'claim', gate.name), claim, 'PX', CLAIM_MS)
      gate.claim = claim
    end
  end
end
