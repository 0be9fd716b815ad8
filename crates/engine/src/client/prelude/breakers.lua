-- breakers: gates that open for a time after failures, and then let one job try.

-- How long the end of an entry is waited for that is gone but holds a place: the worker reports it a moment after the job's end.
local GONE_MS = 2000

-- True while a job is tried. If its process died, or if somebody cancelled or moved it, nobody gives its place back, and another
-- job is tried after GONE_MS.
local function is_trying(gate, trial, now)
  if gate.is_trying then return true end
  if redis.call('HEXISTS', gate.held, trial) == 0 then return false end
  local lane, entry = string.match(trial, '^(%a+) (%d+%-%d+)$')
  local stream = lane and gate.lanes[lane]
  gate.is_trying = true
  if stream and is_alive(stream, entry) then return true end
  local gone = tonumber(redis.call('HGET', gate.breaker.key, 'gone_ms') or '')
  if not gone or gone > now then
    redis.call('HSET', gate.breaker.key, 'gone_ms', ms_text(now))
    return true
  end
  if now - gone < GONE_MS then return true end
  gate.is_trying = false
  gate.taken = gate.taken - redis.call('HDEL', gate.held, trial)
  return false
end

-- Whether a breaker is open: false if not, otherwise the ms for which it stays so, or -1 while another job is tried. It is
-- open for no longer than its cooldown, even if the clock was ahead when it opened.
local function is_tripped(gate, now)
  local reply = redis.call('HMGET', gate.breaker.key, 'until_ms', 'probe', 'cooldown_ms')
  if not reply[1] then return false end
  local rest, cooldown = tonumber(reply[1]) - now, tonumber(reply[3] or '') or gate.breaker.cooldown
  if rest > cooldown then
    rest = cooldown
    redis.call('HSET', gate.breaker.key, 'until_ms', ms_text(now + cooldown))
  end
  if rest > 0 then return rest end
  if reply[2] and is_trying(gate, reply[2], now) then return -1 end
  gate.tries = true
  return false
end

-- Makes an entry the one that is tried after a cooldown.
local function try_with(gate, member)
  redis.call('HSET', gate.breaker.key, 'probe', member)
  redis.call('HDEL', gate.breaker.key, 'gone_ms')
  gate.tries, gate.is_trying = false, true
end

-- Opens a breaker for `cooldown` ms.
local function trip(breaker, cooldown, now)
  redis.call('DEL', breaker.key)
  redis.call('HSET', breaker.key, 'until_ms', ms_text(now + cooldown), 'cooldown_ms', ms_text(cooldown))
  -- An hour without any job is long enough to forget the failures.
  redis.call('PEXPIRE', breaker.key, cooldown + 3600000)
end

-- Notes for a gate's breaker how an attempt ended: 'ok', 'failed', or anything else if it says nothing. Ends are counted in
-- windows, of which the last two count.
local function note_end(gate, member, how, now)
  local breaker = gate.breaker
  local reply = redis.call('HMGET', breaker.key, 'until_ms', 'probe', 'cooldown_ms', 'window', 'ends', 'failed', 'old_ends',
    'old_failed')
  if reply[1] then
    -- Jobs that started before it opened say nothing.
    if reply[2] ~= member then return end
    if how == 'ok' then
      redis.call('DEL', breaker.key)
    elseif how == 'failed' then
      trip(breaker, math.min(2 * tonumber(reply[3] or breaker.cooldown), 64 * breaker.cooldown), now)
    else
      redis.call('HDEL', breaker.key, 'probe')
    end
    return
  end
  if how ~= 'ok' and how ~= 'failed' then return end
  local window, known = math.floor(now / breaker.window), tonumber(reply[4] or '-1')
  local ends, failed, old_ends, old_failed = tonumber(reply[5] or 0), tonumber(reply[6] or 0), tonumber(reply[7] or 0),
    tonumber(reply[8] or 0)
  if known ~= window then
    if known == window - 1 then old_ends, old_failed = ends, failed else old_ends, old_failed = 0, 0 end
    ends, failed = 0, 0
  end
  ends, failed = ends + 1, failed + (how == 'failed' and 1 or 0)
  local all, bad = ends + old_ends, failed + old_failed
  if how == 'failed' and all >= breaker.min and bad / all >= breaker.ratio then
    return trip(breaker, breaker.cooldown, now)
  end
  redis.call('HSET', breaker.key, 'window', window, 'ends', ends, 'failed', failed, 'old_ends', old_ends, 'old_failed', old_failed)
  redis.call('PEXPIRE', breaker.key, 2 * breaker.window)
end
