-- calls: how a script handles the jobs of one call, and answers a call that is sent twice. Lua has no rollback, so a script that
-- settles entries works in this order: the fence, then inserts, then the ends of the entries (see settle_each). Redis allows XCLAIM
-- even when it is out of memory, and once a script has written, Redis admits the rest too. So settling never depends on free memory.
-- These names of arguments mean the same in every script. outcome, worker: how an attempt ended, and the consumer that ran it. ends:
-- what follows from the end of a job, see finish_job. retention_ms: how long its record stays. letter_generation, letter_ms: the
-- generation that its fields say ended in a letter, and when that letter was written, or ''. call: a name that identifies a call if it is
-- sent twice.

-- The answer that a call already got, if it is resent because that answer was lost.
local function receipt_of(receipt)
  local given = redis.call('GET', receipt)
  return given and cmsgpack.unpack(given)
end

-- Keeps the answer for longer than anybody resends one call. It must come after the first write of its script.
local function keep_receipt(receipt, answer)
  redis.call('SET', receipt, cmsgpack.pack(answer), 'PX', 40000)
end

-- Where the first job of a call stands among its arguments; see each_job.
local FIRST_JOB_AT = 3

-- This value of each job of a call: 1 for its entry, and so on.
local function value_of_each(nth)
  local values, at = {}, FIRST_JOB_AT
  while at <= #ARGV do
    values[#values + 1] = ARGV[at + nth]
    at = at + tonumber(ARGV[at]) + 1
  end
  return values
end

-- True if any job of a call has the key at this place among its own. Jobs have no record before something happens to them, so
-- one question for all often saves one for each.
local function any_exists(first_key, keys_each)
  local keys = {}
  for key = first_key, #KEYS, keys_each do keys[#keys + 1] = KEYS[key] end
  return redis.call('EXISTS', unpack(keys)) > 0
end

-- Calls `one` for each job of a call: with whether this consumer holds its entry now, the entry, its generation, and the
-- positions of its first key and of its first and last value. The arguments of the call are the consumer and the lane,
-- then for each job the number of its values, and these: its entry, its generation, and others. A job that fails keeps no
-- other from being handled: the text of its error is its answer. If the lane is no stream with the group, the call fails
-- or, with `needs_no_lane`, `one` gets nil in place of whether it holds the entry. Returns {1, {the answer of each job}}.
local function each_job(stream, consumer, first_key, keys_each, one, needs_no_lane)
  local entries, lasts, at, most = {}, {}, FIRST_JOB_AT, #ARGV
  while at <= most do
    entries[#entries + 1], lasts[#lasts + 1] = ARGV[at + 1], at + tonumber(ARGV[at])
    at = lasts[#lasts] + 1
  end
  entries[#entries + 1] = 'JUSTID'
  -- The fence of all of them.
  local claim = needs_no_lane and redis.pcall or redis.call
  local claimed = claim('XCLAIM', stream, 'fleet', consumer, '0', unpack(entries))
  -- Any other error is one of the server or the login, and the caller must hear it.
  if claimed.err and not is_about_lane(claimed.err) then error(claimed) end
  local held, answers, key = not claimed.err and {} or nil, {}, first_key
  if held then
    for _, entry in ipairs(claimed) do held[entry] = true end
  end
  at = FIRST_JOB_AT
  for nth, last in ipairs(lasts) do
    local entry, generation = ARGV[at + 1], ARGV[at + 2]
    local done, answer = pcall(one, held and held[entry] == true, entry, generation, key, at + 3, last)
    if not done then answer = type(answer) == 'table' and answer.err or tostring(answer) end
    answers[nth] = answer
    if held then held[entry] = nil end
    key, at = key + keys_each, last + 1
  end
  return { 1, answers }
end

-- Settles each job of a call. `one` returns its answer, then 'end' if its entry ends now, or 'keep' if only the answer is
-- kept. `insert`, if given, then writes what belongs to all of them. In case the reply is lost, receipts keep the answers
-- for the same consumer, which may ask again.
local function settle_each(script, stream, receipts, consumer, first_key, keys_each, one, insert)
  local ended, answered, counts, receipt_of_answer, in_stream = {}, {}, {}, {}, stream .. ' '
  redis.call('XACK', stream, 'fleet', NO_ENTRY)
  redis.call('XDEL', stream, NO_ENTRY)
  local answers = each_job(stream, consumer, first_key, keys_each, function(held, entry, ...)
    to_count.campaign = nil
    local answer, what = one(held, entry, ...)
    if what == 'end' then ended[#ended + 1] = entry end
    if to_count.campaign then counts[#counts + 1] = { to_count.campaign, to_count.generation, to_count.how } end
    if what then
      receipt_of_answer[answer] = receipt_of_answer[answer] or script .. ' ' .. answer
      add_pair(answered, in_stream .. entry, receipt_of_answer[answer])
    end
    return answer
  end)
  if ended[1] and insert then insert() end
  for _, counted in ipairs(counts) do count_end(unpack(counted)) end
  if ended[1] then
    redis.call('XACK', stream, 'fleet', unpack(ended))
    redis.call('XDEL', stream, unpack(ended))
  end
  if answered[1] then redis.pcall('HSET', receipts, unpack(answered)) end
  return answers
end

-- The answer of a settlement whose entry is no longer pending. If the same script already answered this consumer, the
-- same answer. 3 if the entry was cancelled after such an answer: asked again, that script gives its own. Otherwise 0,
-- because another process settled the entry.
local function answer_before(receipts, stream, entry, script)
  local receipt = redis.pcall('HGET', receipts, stream .. ' ' .. entry)
  local by, answer = string.match(type(receipt) == 'string' and receipt or '', '^(%S+) (%d)$')
  if by == script then return tonumber(answer) end
  return by == 'cancelled' and 3 or 0
end

-- True if the cancellation of this generation of the job was requested.
local function is_unwanted(cancels, generation)
  return redis.call('ZSCORE', cancels, generation)
end

-- The answer about a job that needs no settling: another process settled its entry, or an attempt of this generation succeeded
-- after it had been given up, and its retry, a repeated attempt, is dropped. nil if the entry is ours to settle.
local function settled(script, stream, held, entry, receipts, record, generation, offloaded, is_repeated)
  if not held then return answer_before(receipts, stream, entry, script) end
  if is_repeated == '0' or not is_done(record, generation) then return end
  meet_late(record, generation)
  drop_offloaded(offloaded, generation, record)
  return 2, 'end'
end
