-- hasten: make jobs of the delayed set due now. A call that is sent twice gets its receipt as the answer.
-- Each job has two keys: record, ledger. Then for each its member of the delayed set, and its life.
-- returns {1, an answer or an error for each job}: 'done' it is due now, 'gone' it is not in the delayed set, or is due already,
--   'later' send again
local delayed, wake, receipt = unpack(KEYS, 1, 3)
local FIRST_KEY, KEYS_EACH, VALUES_EACH = 4, 2, 2
-- The most fields of ledgers whose names one script looks through. A ledger of 64 steps has about 900.
local MOST_NAMES = 4000
local given = receipt_of(receipt)
if given then return given end
local now, answer, hastened, looked = now_ms(), { 1 }, {}, 0
-- Redis allows this even when it is out of memory, and then admits the other writes.
redis.call('ZREM', delayed, '')
local function hasten(member, life, record, ledger)
  local score = redis.call('ZSCORE', delayed, member)
  if not score then return 'gone' end
  local rank = rank_of(score)
  if score - rank <= now then return 'gone' end
  local owner, names = redis.call('HGET', record, 'life'), redis.call('HLEN', ledger)
  if names > MOST_NAMES then error('the ledger of its steps has too many fields') end
  looked = looked + names
  if looked > MOST_NAMES then return 'later' end
  -- Its steps then have no due times of their own.
  for _, name in ipairs(redis.call('HKEYS', ledger)) do
    if string.sub(name, -4) == ':due' then redis.call('HDEL', ledger, name) end
  end
  redis.call('ZADD', delayed, 'XX', now + rank, member)
  if owner == life then redis.call('HSET', record, 'due_ms', ms_text(now)) end
  hastened[member] = true
  return 'done'
end
local key = FIRST_KEY
for at = 1, #ARGV, VALUES_EACH do
  local member, life = unpack(ARGV, at, at + 1)
  local done, told = pcall(hasten, member, life, unpack(KEYS, key, key + 1))
  if not done then told = type(told) == 'table' and told.err or tostring(told) end
  answer[#answer + 1], key = told, key + KEYS_EACH
end
nudge(delayed, wake, hastened)
keep_receipt(receipt, answer)
return answer
