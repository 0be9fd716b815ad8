-- drop: delete one dead letter, and its job's record unless another generation uses it.
-- letter: its entry id. stay_ms, most: '' or how many ms, or how many letters, stay. If one of these two is given, the
-- letter is deleted only if it is older, or the oldest of more letters. keep_ms: how long to keep the ledger. group,
-- fingerprint: what the letter says, or ''. The caller has read it, because it may be large. receipt: the call that last dropped
-- a letter there. A process has only a few such keys, because it may drop a million letters. task, page: the task that drops it, if
-- one does; see is_on_page.
-- returns {1} dropped, also if this call did it before; {0} no such dead letter, {2} kept, {3} the task is not on this page
local dead, record, ledger, offloaded, receipt, task = unpack(KEYS)
local letter, stay_ms, most, keep_ms, group, fingerprint, call, page = unpack(ARGV)
if not is_on_page(task, page) then return { 3 } end
stay_ms, most = tonumber(stay_ms), tonumber(most)
local function gone()
  local by = receipt_of(receipt)
  return { by and by[1] == call and 1 or 0 }
end
if stay_ms or most then
  -- The id of a letter begins with the time of its death.
  local is_old = stay_ms and now_ms() - tonumber(string.match(letter, '^%d+')) > stay_ms
  local is_over = false
  if not is_old and most and redis.call('XLEN', dead) > most then
    is_over = redis.call('XRANGE', dead, '-', '+', 'COUNT', 1)[1][1] == letter
  end
  if not is_old and not is_over then
    if letter_at(dead, letter) then return { 2 } end
    return gone()
  end
end
local has_record, has_ledger = is_hash(record), is_hash(ledger)
if not remove_letter_of(dead, letter, group or '', fingerprint or '') then return gone() end
count_for_task(task, 'done', 1, now_ms())
keep_receipt(receipt, { call })
drop_offloaded(offloaded, '')
if has_record then end_dead_record(record, has_ledger and ledger or nil, letter, keep_ms) end
return { 1 }
