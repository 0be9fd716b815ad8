-- steps: the ledger of the steps of a job.

-- The steps of an id that have begun, each with its name, its kind, and its state; then how many steps it has.
local function begun_steps(ledger)
  local plan, states, begun = {}, {}, {}
  for line in string.gmatch(redis.call('HGET', ledger, 'plan') or '', '[^\n]+') do
    local name, kind = string.match(line, '^(%S+) (%S+)')
    if name then plan[#plan + 1], states[#states + 1] = { name, kind }, name .. ':state' end
  end
  if not plan[1] then return begun, 0 end
  for nth, state in ipairs(redis.call('HMGET', ledger, unpack(states))) do
    if state and state ~= 'pending' then begun[#begun + 1] = { plan[nth][1], plan[nth][2], state } end
  end
  return begun, #plan
end

-- True if a `once` step of an id has begun. A letter may be one of many, and reading all 64 steps of each takes long.
local function has_begun_once(ledger)
  local states = {}
  for name in string.gmatch('\n' .. (redis.call('HGET', ledger, 'plan') or ''), '\n(%S+) once') do
    states[#states + 1] = name .. ':state'
  end
  for _, state in ipairs(states[1] and redis.call('HMGET', ledger, unpack(states)) or states) do
    if state and state ~= 'pending' then return true end
  end
  return false
end

-- Sets the TTL of the ledger of an id's steps, unless a generation that has begun one of them is still alive.
local function expire_ledger(ledger, ms)
  local generations = redis.pcall('HGET', ledger, 'lives')
  if type(generations) == 'string' and (tonumber(generations) or 0) > 0 then return end
  redis.call('PEXPIRE', ledger, ms)
end

-- A generation that has begun steps, and so uses their ledger, has ended; see step_begin. Returns whether it was such a generation.
local function leave_ledger(ledger, generation)
  local has_begun = redis.pcall('HDEL', ledger, '@' .. generation) == 1
  if has_begun then redis.call('HINCRBY', ledger, 'lives', -1) end
  return has_begun
end

-- Notes an error of a step in its ring of the last 5: 'ms kind text'.
local function note_step(ledger, step, now, kind, text)
  local nth = redis.call('HINCRBY', ledger, step .. ':noted', 1)
  redis.call('HSET', ledger, step .. ':e:' .. (nth - 1) % 5, string.format('%.0f ', now) .. kind .. ' ' .. text)
end

-- True if the attempt that began this run of a step still has its entry, in whatever lane. The run's name begins with the
-- entry. stream: one of the lanes.
local function is_under_way(stream, run)
  local entry = string.match(run or '', '^(%d+%-%d+)/')
  if not entry then return false end
  for _, lane in ipairs({ 'normal', 'high', 'low' }) do
    local found = pending_of(lane_key(stream, lane), entry)
    if found then return found end
  end
  return false
end

-- True if the runs of a step in another generation count in this one: the other generation is alive, or was so when this one joined the
-- ledger. A generation joins at a version of the ledger, and a run ends at one.
local function shares_attempts(ledger, step, other, generation)
  local reply = redis.call('HMGET', ledger, '@' .. other, '@' .. generation, step .. ':v')
  local joined, ended = tonumber(reply[2] or ''), tonumber(reply[3] or '')
  return reply[1] or joined and ended and joined < ended
end

-- May this run of a step start? The answer is that of step_begin. reply: the step's state, run, generation and due time in the
-- ledger. Adds to `changes` what must be written, and adds nothing if nothing changes. It must come after the fence.
local function begin_step(stream, ledger, reply, step, kind, run, generation, consumer, now, changes)
  local state, is_others = reply[1] or 'pending', reply[3] and reply[3] ~= generation
  if state == 'started' and reply[2] == run then return 1 end
  if state == 'done' or state == 'given_up' then return 2 end
  -- This run has ended, and was sent to begin before that.
  if reply[2] == run then return 0 end
  if state == 'started' and is_others and is_under_way(stream, reply[2]) then return 4 end
  if kind == 'once' and state == 'started' then
    add_pair(changes, step .. ':state', 'unknown')
    add_pair(changes, step .. ':since', ms_text(now))
    redis.call('HINCRBY', ledger, step .. ':attempts', 1)
    note_step(ledger, step, now, 'lost',
      'no word from ' .. (redis.call('HGET', ledger, step .. ':worker') or '-') .. ', which had started it')
    return 3
  end
  if kind == 'once' and state ~= 'pending' then return 2 end
  if kind == 'auto' and is_others and not shares_attempts(ledger, step, reply[3], generation) then
    add_pair(changes, step .. ':attempts', '0')
  end
  add_pair(changes, step .. ':state', 'started')
  add_pair(changes, step .. ':run', run)
  add_pair(changes, step .. ':worker', consumer)
  add_pair(changes, step .. ':since', ms_text(now))
  add_pair(changes, step .. ':begun', ms_text(now))
  add_pair(changes, step .. ':life', generation)
  if reply[4] then redis.call('HDEL', ledger, step .. ':due') end
  return 1
end
