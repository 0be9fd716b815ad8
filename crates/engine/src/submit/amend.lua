-- amend: change when a job in the delayed set is due, or its fields, in one step. It begins with the write that a full
-- Redis refuses, so it is refused as a whole.
-- when: 'in' or 'at' this many ms, or '' to leave the time. read: the packed fields that were read, or '' to leave them.
-- wanted: the packed fields to replace them with, or ''. was: the time in ms at which it was due when it was read, or '' for any.
-- returns {1, due ms} changed, {0} not in the delayed set, {2} its fields or its time are not those that were read
-- If the id has two generations, it changes the one in the record. A call that is sent twice gets its receipt as the answer: by then
-- the job may have been due, and 'in' would count from a later time.
local delayed, packs, record, wake, ledger, receipt = unpack(KEYS)
local id, when, ms, read, wanted, was = unpack(ARGV)
local given = receipt_of(receipt)
if given then return given end
local now, reply = now_ms(), redis.call('HMGET', record, 'life', 'member')
local member = reply[2] or id
local due = redis.call('ZSCORE', delayed, member)
local generation = due and reply[1] and generation_of(redis.call('HGET', packs, member) or '')
if not due or (generation and generation ~= reply[1]) then return { 0 } end
local rank = rank_of(due)
due = due - rank
if (was or '') ~= '' and due ~= tonumber(was) then return { 2 } end
-- Nothing is written if this fails.
local ledger_fields = when ~= '' and redis.call('HKEYS', ledger) or {}
if when == 'in' then due = now + tonumber(ms) end
if when == 'at' then due = tonumber(ms) end
if read ~= '' then
  local fields = redis.call('HGET', packs, member)
  if fields ~= read and fields ~= wanted then return { 2 } end
  local kept, former = offloaded_by(wanted, delayed), offloaded_by(fields, delayed)
  must_be_offloaded(kept)
  redis.call('HSET', packs, member, wanted)
  keep_offloaded(kept)
  if kept ~= former then drop_offloaded(former, generation or '', record) end
end
if when ~= '' then
  redis.call('ZADD', delayed, 'XX', due + rank, member)
  nudge(delayed, wake, { [member] = true })
  -- Its steps then have no due times of their own.
  for _, name in ipairs(ledger_fields) do
    if string.sub(name, -4) == ':due' then redis.call('HDEL', ledger, name) end
  end
end
if redis.call('EXISTS', record) == 1 then redis.call('HSET', record, 'due_ms', due) end
keep_receipt(receipt, { 1, due })
return { 1, due }
