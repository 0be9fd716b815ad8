-- schedule: put jobs into the delayed set. A job whose id is already in the set stays as it is. A call that is sent
-- twice gets its receipt as the answer: by then its jobs may have been due, and have run.
-- most: the producer's limit of the depth or ''. Then for each job: id, 'in' or 'at', milliseconds (a fraction orders jobs
-- that are due at the same time), its packed fields in two parts, before and after the 13 digits of the time of its acceptance, and the last part of the name of the key that
-- has its large fields, or ''.
-- returns {added}, or {-1, depth, limit} if they do not fit
local delayed, packs, wake, control, high, normal, low, receipt = unpack(KEYS)
local most = ARGV[1]
local FIRST_JOB, PARTS = 2, 6
local given = receipt_of(receipt)
if given then return given end
local limit = depth_limit(control, most)
-- Calls this for the key of the large fields of each job that has one.
local function each_large(one)
  for at = FIRST_JOB + PARTS - 1, #ARGV, PARTS do
    if ARGV[at] ~= '' then one(offloaded_key(delayed, ARGV[at])) end
  end
end
if limit then
  local more = 0
  for at = FIRST_JOB, #ARGV, PARTS do more = more + 1 - redis.call('HEXISTS', packs, ARGV[at]) end
  local full = more > 0 and overfull(limit, more, delayed, high, normal, low)
  if full then
    each_large(forget_offloaded)
    return full
  end
end
-- Nothing is written if this fails: fields without a time would be taken for an existing job.
redis.call('ZCARD', delayed)
local now, added, members = now_ms(), 0, {}
local digits = string.format('%013.0f', now)
each_large(must_be_offloaded)
for at = FIRST_JOB, #ARGV, PARTS do
  local id, when, ms, head, tail, token = unpack(ARGV, at, at + PARTS - 1)
  local due = when == 'in' and now + tonumber(ms) or tonumber(ms)
  if redis.call('HSETNX', packs, id, head .. digits .. tail) == 1 then
    if token ~= '' then keep_offloaded(offloaded_key(delayed, token)) end
    redis.call('ZADD', delayed, due, id)
    members[id] = true
    added = added + 1
  end
end
if added > 0 then
  nudge(delayed, wake, members)
  keep_receipt(receipt, { added })
end
return { added }
