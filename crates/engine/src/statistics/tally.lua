-- tally: add what a worker has counted to the counts of a queue, which wait for the leader's next sample, and to the
-- statistics of types of these ten minutes and of this hour. A call that is sent twice gets its receipt as the answer.
-- nth_minutes, nth_hour: which ten minutes and which hour since 1970 the two keys are for, as the worker believes. most_types:
-- how many types a key has besides the field for all others. Then five counts. Then for each type, at most 25 in a call, its
-- name and its packed list: done, failed, dead, and how many waits and runs fell into each cell of a distribution.
-- returns {1, now ms} added, {0, now ms} these keys are not for now, and nothing was added
local counts, ten_minutes, hour, receipt = unpack(KEYS)
local nth_minutes, nth_hour, most_types = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local NAMES, FIRST_COUNT, FIRST_TYPE = { 'done', 'failed', 'retried', 'died', 'cancelled' }, 4, 9
local OTHERS, TEN_MINUTES_MS, HOUR_MS = '(other)', 600000, 3600000
local given = receipt_of(receipt)
if given then return given end
local now = now_ms()
if math.floor(now / TEN_MINUTES_MS) ~= nth_minutes or math.floor(now / HOUR_MS) ~= nth_hour then return { 0, now } end
-- If one of the keys has another type, this is refused before anything is written.
for _, key in ipairs({ counts, ten_minutes, hour }) do redis.call('HLEN', key) end
-- Sent again after it was refused in the middle, it must not count anything twice.
keep_receipt(receipt, { 1, now })
for nth, name in ipairs(NAMES) do
  local more = tonumber(ARGV[FIRST_COUNT + nth - 1])
  if more > 0 then redis.call('HINCRBY', counts, name, more) end
end
redis.call('PEXPIRE', counts, 24 * HOUR_MS)
-- A list that somebody has spoiled counts as none.
local function list_of(packed)
  local is_sound, list = pcall(cmsgpack.unpack, packed or '')
  if not is_sound or type(list) ~= 'table' then return { 0, 0, 0, {}, {} } end
  for at = 1, 3 do list[at] = tonumber(list[at]) or 0 end
  for at = 4, 5 do list[at] = type(list[at]) == 'table' and list[at] or {} end
  return list
end
local function add(bucket, name, more)
  local known = redis.call('HGET', bucket, name)
  if not known and name ~= OTHERS and redis.call('HLEN', bucket) >= most_types then
    name = OTHERS
    known = redis.call('HGET', bucket, name)
  end
  local sum = list_of(known)
  for at = 1, 3 do sum[at] = sum[at] + more[at] end
  for at = 4, 5 do
    for cell, count in pairs(more[at]) do sum[at][cell] = (tonumber(sum[at][cell]) or 0) + count end
  end
  redis.call('HSET', bucket, name, cmsgpack.pack(sum))
end
for at = FIRST_TYPE, #ARGV, 2 do
  local job_type, packed = unpack(ARGV, at, at + 1)
  local more = list_of(packed)
  add(ten_minutes, job_type, more)
  add(hour, job_type, more)
end
-- A window may begin in the middle of a key's time, so each key is kept for longer than the longest window.
redis.call('PEXPIRE', ten_minutes, 3 * HOUR_MS)
redis.call('PEXPIRE', hour, 26 * HOUR_MS)
return { 1, now }
