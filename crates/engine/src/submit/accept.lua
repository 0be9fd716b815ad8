-- accept: append or schedule jobs that have ids, each once. It is the short form of submit for calls in which no job has a
-- unique key or belongs to a batch. A job that has a record, or is delayed, is left as it is. A job is refused alone if its
-- record is of another type. Everything is read before the first write, which a full Redis refuses, so the script is
-- refused as a whole.
-- most: the producer's limit of the depth or ''. Then for each job its record, its values in the order of `add`, and
-- `count` further values; see submit.
-- returns {jobs, then for each its outcome, its id, and its state}, or {-1, depth, limit} if they do not fit. The outcomes:
--   'new'; 'known': nothing was done; 'refused': nothing was done, and the state is the reason. A call that is sent twice
--   gets its receipt as the answer.
local control, delayed, packs, wake, high, normal, low, receipt = unpack(KEYS, 1, 8)
local most = ARGV[1]
local FIRST_KEY, FIRST_JOB, VALUES, DUE_AT, TOKEN_AT = 9, 2, 9, 4, 7
local given = receipt_of(receipt)
if given then return given end
local now, lanes = now_ms(), { high = high, normal = normal, low = low }
-- Nothing is written if one of these fails.
local is_empty = redis.call('ZCARD', delayed) == 0
redis.call('HEXISTS', packs, '')
for _, stream in ipairs({ high, normal, low }) do redis.call('XLEN', stream) end
-- Most ids are new: then no job of a call has a record.
local has_records, NOTHING = redis.call('EXISTS', unpack(KEYS, FIRST_KEY)) > 0, {}
-- The states of the jobs that this call accepts, by their ids.
local accepted, more = {}, 0
-- What to do with a job, and its state.
local function judge(record, id, due)
  if accepted[id] then return 'known', accepted[id] end
  local reply = has_records and redis.pcall('HMGET', record, 'state', 'member') or NOTHING
  if reply.err then
    if not string.find(reply.err, 'WRONGTYPE', 1, true) then error(reply) end
    return 'refused', reply.err
  end
  local known = standing_of(reply, id, delayed, is_empty)
  if known then return 'known', shown_state(known, record, lanes) end
  accepted[id], more = due == 'now' and 'waiting' or 'scheduled', more + 1
  return 'new', accepted[id]
end
-- Where the values of each job begin, and the key of its large fields.
local answer, starts, large, at = { 0 }, {}, {}, FIRST_JOB
while at <= #ARGV do
  local id, due, token, count = ARGV[at], ARGV[at + DUE_AT], ARGV[at + TOKEN_AT], tonumber(ARGV[at + VALUES - 1])
  local nth = #starts + 1
  if due == 'now' and not make_entry(count) then return refuse_fields(nth, count) end
  if token ~= '' then
    large[nth] = offloaded_key(delayed, token)
    must_be_offloaded(large[nth])
  end
  local verdict, state = judge(KEYS[FIRST_KEY + nth - 1], id, due)
  answer[3 * nth - 1], answer[3 * nth], answer[3 * nth + 1] = verdict, id, state
  starts[nth], at = at, at + VALUES + count
end
answer[1] = #starts
local limit = more > 0 and depth_limit(control, most)
local full = limit and overfull(limit, more, delayed, high, normal, low)
local function forget_large()
  for nth, key in pairs(large) do
    if full or answer[3 * nth - 1] ~= 'new' then forget_offloaded(key) end
  end
end
if full or more == 0 then
  forget_large()
  return full or answer
end
local members, is_delayed = {}, false
local function add(record, from)
  local id, generation, lane, job_type, due, ms, window, token, count = unpack(ARGV, from, from + VALUES - 1)
  local first, last = from + VALUES, from + VALUES + tonumber(count) - 1
  local created, location, value
  if due == 'now' then
    location, value = 'entry', must_append(lanes[lane], ARGV, first, last)
    created = string.match(value, '^%d+')
  else
    local score = due == 'at' and tonumber(ms) or now + tonumber(ms)
    location, value = 'due_ms', ms_text(score)
    created = string.format('%013.0f', now)
    redis.call('HSET', packs, id, ARGV[first] .. created .. ARGV[last])
    redis.call('ZADD', delayed, score % 1 == 0 and value or score, id)
    members[id], is_delayed = true, true
  end
  if token ~= '' then keep_offloaded(offloaded_key(delayed, token)) end
  redis.call('HSET', record, 'state', accepted[id], 'life', generation, 'type', job_type, 'lane', lane, 'created_ms', created,
    'keep_until_ms', ms_text(now + tonumber(window)), location, value)
end
for nth, from in ipairs(starts) do
  if answer[3 * nth - 1] == 'new' then add(KEYS[FIRST_KEY + nth - 1], from) end
end
if is_delayed then nudge(delayed, wake, members) end
keep_receipt(receipt, answer)
forget_large()
return answer
