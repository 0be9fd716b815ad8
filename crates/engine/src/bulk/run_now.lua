-- run_now: make jobs of the delayed set due now. A call that is sent twice gets its receipt as the answer.
-- mark: see with_mark. task, page: the task that does it, see is_on_page. Each job has two keys: record, ledger. Then for each its
-- member of the delayed set, and its generation.
-- returns {0} the task is not on this page; {1, an answer or an error for each job}: 'done' it is due now, 'gone' it is not in the
--   delayed set, or is due already, 'later' send again
local delayed, packs, wake, receipt, task = unpack(KEYS, 1, 5)
local mark, page = unpack(ARGV, 1, 2)
local FIRST_KEY, KEYS_EACH, FIRST_JOB, VALUES_EACH = 6, 2, 3, 2
-- The most fields of ledgers whose names one script looks through. A ledger of 64 steps has about 900.
local MOST_NAMES = 4000
-- The most bytes of packed fields that one script marks. A job that has more is not marked.
local MOST_BYTES = 262144
local given = receipt_of(receipt)
if given then return given end
if not is_on_page(task, page) then return { 0 } end
local now, answer, run_now_outcome, looked, bytes, done = now_ms(), { 1 }, {}, 0, 0, 0
-- Redis allows this even when it is out of memory, and then admits the other writes.
redis.call('ZREM', delayed, '')
-- Notes in a job that it was made due, so that it is not if it fails at once and comes back. What cannot be marked is noted by the task.
-- Returns false if that was noted before.
local function note(member, size, generation)
  local marked = size > 0 and with_mark(redis.call('HGET', packs, member), mark)
  if marked then
    redis.call('HSET', packs, member, marked)
    return true
  end
  return page == '' or redis.call('HSETNX', task, 'due:' .. (generation == '' and member or generation), 1) == 1
end
local function run_now(member, generation, record, ledger)
  local score = redis.call('ZSCORE', delayed, member)
  if not score then return 'gone' end
  local rank = rank_of(score)
  if score - rank <= now then return 'gone' end
  local owner, names = redis.call('HGET', record, 'life'), redis.call('HLEN', ledger)
  if names > MOST_NAMES then error('the ledger of its steps has too many fields') end
  local size = redis.call('HSTRLEN', packs, member)
  if size > MOST_BYTES then size = 0 end
  looked, bytes = looked + names, bytes + size
  if looked > MOST_NAMES or bytes > MOST_BYTES then return 'later' end
  if not note(member, size, generation) then return 'gone' end
  -- Its steps then have no due times of their own.
  for _, name in ipairs(redis.call('HKEYS', ledger)) do
    if string.sub(name, -4) == ':due' then redis.call('HDEL', ledger, name) end
  end
  redis.call('ZADD', delayed, 'XX', now + rank, member)
  if owner == generation then redis.call('HSET', record, 'due_ms', ms_text(now)) end
  run_now_outcome[member], done = true, done + 1
  return 'done'
end
local key = FIRST_KEY
for at = FIRST_JOB, #ARGV, VALUES_EACH do
  local member, generation = unpack(ARGV, at, at + 1)
  local is_sound, reply = pcall(run_now, member, generation, unpack(KEYS, key, key + 1))
  if not is_sound then reply = type(reply) == 'table' and reply.err or tostring(reply) end
  answer[#answer + 1], key = reply, key + KEYS_EACH
end
nudge(delayed, wake, run_now_outcome)
count_for_task(task, 'done', done, now)
keep_receipt(receipt, answer)
return answer
