-- sample: add the figures of this minute to a queue's samples, with what its workers have counted since the sample before. A
-- minute has one sample, however often the script is sent. The first one has nothing to compare with, and counts nothing.
-- counts: see tally. most: about how many samples to keep. waiting to oldest_ms: figures that the leader has read. moved_in,
-- moved_out: how many jobs had been moved here and away by then; see move_jobs. oldest_ms: '' if no job waits. read_ms: when they
-- were read.
-- returns {1, now ms} added, {0, now ms} this minute has one
local samples, counts = unpack(KEYS)
local most, waiting, running, delayed, dead, in_rooms, moved_in, moved_out, oldest_ms, read_ms = unpack(ARGV)
local NAMES = { 'done', 'failed', 'retried', 'died', 'cancelled' }
local MINUTE_MS, DAY_MS, MOST_SET_BACK_MS = 60000, 86400000, 600000
local now = now_ms()
local minute = now - now % MINUTE_MS
local last = redis.call('XREVRANGE', samples, '+', '-', 'COUNT', 1)[1]
local at = last and tonumber(string.match(last[1], '^%d+'))
if last and at - minute > MOST_SET_BACK_MS then
  -- The clock was set back by long. Until it is there again, no sample would be added, so the samples begin again.
  redis.call('DEL', samples)
  last = nil
end
if last and at >= minute then return { 0, now } end
local stock, counted, fields = waiting + running + delayed, {}, {}
local reply = redis.call('HMGET', counts, unpack(NAMES))
-- Jobs that were moved neither arrived nor ended.
local moved, later = moved_in - moved_out, {}
for name, known in pairs({ moved_in = moved_in, moved_out = moved_out }) do
  later[name] = (tonumber(redis.call('HGET', counts, name) or '') or 0) - known
end
for nth, name in ipairs(NAMES) do counted[name] = last and tonumber(reply[nth] or '') or 0 end
local arrived, owed = 0, 0
if last then
  local before = {}
  for nth = 1, #last[2], 2 do before[last[2][nth]] = tonumber(last[2][nth + 1]) end
  -- What is there now and was not there before has arrived, and so has what has ended meanwhile.
  local grown = stock - (before.waiting or 0) - (before.running or 0) - (before.delayed or 0)
  grown = grown - moved
  local ended = counted.done + counted.died + counted.cancelled
  arrived = grown + ended - (before.owed or 0)
  -- Workers report ends a few seconds late. Such ends are in the next sample, and must not count as arrivals there. If no more jobs end
  -- than that, somebody has deleted the others.
  if arrived < 0 then owed = before.owed and math.min(-arrived, ended) or -arrived end
  arrived = math.max(arrived, 0)
end
for _, pair in ipairs({
  { 'span_ms', last and minute - at or 0 }, { 'waiting', waiting }, { 'running', running }, { 'delayed', delayed },
  { 'dead', dead }, { 'in_rooms', in_rooms }, { 'oldest_ms', oldest_ms }, { 'arrived', arrived },
  { 'off_ms', math.max(-MINUTE_MS, math.min(read_ms - minute, MINUTE_MS)) },
}) do
  add_pair(fields, pair[1], pair[2])
end
for _, name in ipairs(NAMES) do add_pair(fields, name, counted[name]) end
if owed > 0 then add_pair(fields, 'owed', owed) end
if last and moved ~= 0 then add_pair(fields, 'moved', moved) end
redis.call('XADD', samples, 'MAXLEN', '~', most, ms_text(minute) .. '-0', unpack(fields))
redis.call('DEL', counts)
-- The figures do not know yet of jobs that were moved after they had been read.
for name, count in pairs(later) do
  if count > 0 then
    redis.call('HSET', counts, name, string.format('%d', count))
    redis.call('PEXPIRE', counts, DAY_MS)
  end
end
redis.call('PEXPIRE', samples, DAY_MS + MINUTE_MS)
return { 1, now }
