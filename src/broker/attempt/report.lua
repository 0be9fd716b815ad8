-- report: write down what running attempts report: progress and log lines. Only attempts whose entries this consumer
-- still holds are written, so nothing comes back that was settled or dropped. Everything that an attempt reports has a
-- number, and is written only once.
-- KEYS for each attempt: stream, record
-- ARGV 1 consumer  2 ms to keep a record that is created here; then for each attempt: entry id, created ms, type, lane,
--      life, number of its progress or 0, percent, note, how many log lines (at most 100), and for each line number, age in
--      ms, text
-- returns {attempts written}
local now, at, written = now_ms(), 3, 0
for key = 1, #KEYS, 2 do
  local stream, record, entry = KEYS[key], KEYS[key + 1], ARGV[at]
  local life, nth, lines, first = ARGV[at + 4], tonumber(ARGV[at + 5]), tonumber(ARGV[at + 8]), at + 9
  local pending = redis.pcall('XPENDING', stream, 'fleet', entry, entry, 1, ARGV[1])
  local said = redis.pcall('HMGET', record, 'said_of', 'said', 'logged', 'life', 'state')
  local is_others = not said.err and said[4] and said[4] ~= life and not has_ended(said[5])
  if not pending.err and #pending == 1 and not said.err and not is_others then
    local last, logged = said[1] == entry and tonumber(said[2]) or 0, tonumber(said[3] or 0)
    local newest, fields = last, {}
    local function add(name, value)
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    end
    if nth > last then
      newest = nth
      add('progress', ARGV[at + 6])
      add('note', ARGV[at + 7])
      add('progress_ms', now)
    end
    for line = first, first + 3 * (lines - 1), 3 do
      local number = tonumber(ARGV[line])
      if number > last then
        newest = math.max(newest, number)
        add('l:' .. logged % 100, string.format('%.0f ', now - tonumber(ARGV[line + 1])) .. ARGV[line + 2])
        logged = logged + 1
      end
    end
    if newest > last then
      local ttl = redis.call('PTTL', record)
      if ttl ~= -1 then
        for name, value in pairs({ state = 'running', entry = entry, worker = ARGV[1], created_ms = ARGV[at + 1], life = life,
          type = ARGV[at + 2], lane = ARGV[at + 3] }) do add(name, value) end
      end
      redis.call('HSET', record, 'said_of', entry, 'said', newest, 'logged', logged, 'updated_ms', now, unpack(fields))
      -- A record that nothing else keeps expires on its own if the attempt is never settled.
      if ttl ~= -1 then redis.call('PEXPIRE', record, ARGV[2]) end
      written = written + 1
    end
  end
  at = first + 3 * lines
end
return { written }
