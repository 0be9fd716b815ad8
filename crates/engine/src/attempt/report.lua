-- report: write down what running attempts report: progress and log lines. Only attempts whose entries this consumer
-- still holds are written, so nothing comes back that was settled or dropped. Everything that an attempt reports has a
-- number, and is written only once. The caller bounds the attempts of one call, and the number and size of their lines.
-- keep_ms: how long to keep a record that is created here. Each attempt has two keys. Of its values, nth is the number
-- of its progress or 0, and lines says how many log lines follow (at most 100): for each its number, its age in ms, its
-- text.
-- returns {attempts written}
local consumer, keep_ms = ARGV[1], ARGV[2]
local FIRST_ATTEMPT, VALUES = 3, 9
local now, at, written = now_ms(), FIRST_ATTEMPT, 0
for key = 1, #KEYS, 2 do
  local stream, record = KEYS[key], KEYS[key + 1]
  local entry, created_ms, job_type, lane, generation, nth, percent, remark, lines = unpack(ARGV, at, at + VALUES - 1)
  local first = at + VALUES
  nth, lines = tonumber(nth), tonumber(lines)
  local said = redis.pcall('HMGET', record, 'said_of', 'said', 'logged', 'life', 'state')
  local is_others = not said.err and said[4] and said[4] ~= generation and not has_ended(said[5])
  if pending_of(stream, entry, consumer) and not said.err and not is_others then
    local last, logged = said[1] == entry and tonumber(said[2]) or 0, tonumber(said[3] or 0)
    local newest, fields = last, {}
    if nth > last then
      newest = nth
      add_pair(fields, 'progress', percent)
      add_pair(fields, 'note', remark)
      add_pair(fields, 'progress_ms', now)
    end
    for line = first, first + 3 * (lines - 1), 3 do
      local number = tonumber(ARGV[line])
      if number > last then
        newest = math.max(newest, number)
        add_pair(fields, 'l:' .. logged % 100, string.format('%.0f ', now - tonumber(ARGV[line + 1])) .. ARGV[line + 2])
        logged = logged + 1
      end
    end
    if newest > last then
      local ttl = redis.call('PTTL', record)
      if ttl ~= -1 then
        for name, value in pairs({ state = 'running', entry = entry, worker = consumer, created_ms = created_ms, life = generation,
          type = job_type, lane = lane }) do add_pair(fields, name, value) end
      end
      redis.call('HSET', record, 'said_of', entry, 'said', newest, 'logged', logged, unpack(fields))
      -- A record that nothing else keeps expires on its own if the attempt is never settled.
      if ttl ~= -1 then redis.call('PEXPIRE', record, keep_ms) end
      written = written + 1
    end
  end
  at = first + 3 * lines
end
return { written }
