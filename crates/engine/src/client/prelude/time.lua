-- time: the server's clock, and the leases that it ends.

-- The server's clock in milliseconds, the only clock that scripts use. Read once per script.
local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- The times that this script has written as text: most jobs of a call have the same.
local written_times = {}

-- A time in milliseconds as text. The formats for floating-point numbers cost ten times as much, and Redis uses them for
-- each number that a script passes to a command.
local function ms_text(ms)
  local written = written_times[ms] or string.format('%d%07d', math.floor(ms / 1e7), ms % 1e7)
  written_times[ms] = written
  return written
end

-- Takes, renews or, with a lease of 0, gives up a lease. Returns whether `own` holds it now.
local function take_lease(lease, own, lease_ms)
  local holder = redis.call('GET', lease)
  if holder and holder ~= own then
    -- The holder never set a longer lease, so the server's clock was set back. A holder that is dead must not keep its
    -- place that long.
    if lease_ms > 0 and redis.call('PTTL', lease) > lease_ms then redis.call('PEXPIRE', lease, lease_ms) end
    return false
  end
  -- Redis allows DEL even when it is out of memory, and then admits the SET.
  redis.call('DEL', lease)
  if lease_ms > 0 then redis.call('SET', lease, own, 'PX', lease_ms) end
  return lease_ms > 0
end
