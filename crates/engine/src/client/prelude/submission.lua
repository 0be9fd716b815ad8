-- submission: whether a job is accepted: the depth of its queue, and the job that has its id or its unique key.

-- The most jobs that may wait, run and be due later: the fleet's agreed limit or the producer's own, whichever is
-- lower.
local function depth_limit(control, own)
  local limit, agreed = tonumber(own), tonumber(redis.call('HGET', control, 'max_depth') or '')
  if limit and agreed then return math.min(limit, agreed) end
  return limit or agreed
end

-- How many jobs of a queue wait, run and are due later.
local function depth_of(delayed, high, normal, low)
  -- Jobs in waiting lists wait, too. A login that may not count them, as older ones, is not refused for that.
  local in_rooms = redis.pcall('HLEN', waitlist_locations_key(delayed))
  return redis.call('ZCARD', delayed) + redis.call('XLEN', high) + redis.call('XLEN', normal) + redis.call('XLEN', low)
    + (type(in_rooms) == 'number' and in_rooms or 0)
end

-- The answer to a producer if `more` further jobs do not fit; nil if they do.
local function overfull(limit, more, ...)
  local depth = depth_of(...)
  if depth + more > limit then return { -1, depth, limit } end
end

-- The state of the job with this id as its producer sees it, and its member of the delayed set if it is in there; nil if
-- there is no such job. reply: what the record says about state and member. A delayed job may have no record; is_empty: true
-- if there is no such job. A job in the delayed set without a due time would never be due.
local function standing_of(reply, id, delayed, is_empty)
  local state, member = reply[1], reply[2] or id
  if state and state ~= 'scheduled' and state ~= 'retrying' then return state end
  if not state and is_empty then return nil end
  if redis.call('ZSCORE', delayed, member) then return state or 'scheduled', member end
  -- It was due, and is back in its lane.
  return state and 'waiting'
end

-- True if a job in this state is entitled to the lock of a key. own, scope: the key that its record names, and for how long it
-- holds the lock.
local function is_entitled(own, scope, key, state)
  if own ~= key then return false end
  if scope == 'window' then return state ~= 'dead' and state ~= 'cancelled' end
  if scope == 'waiting' and state ~= 'waiting' and state ~= 'scheduled' then return false end
  return not has_ended(state)
end

-- The state of a job that is known to be in this state, as its producer sees it. The record of a job may say 'waiting'
-- until its first attempt ends: then its entry shows whether it runs.
local function shown_state(state, record, lanes)
  local reply = state == 'waiting' and redis.call('HMGET', record, 'lane', 'entry')
  local stream = reply and reply[2] and lanes[reply[1]]
  return stream and pending_of(stream, reply[2]) and 'running' or state
end
