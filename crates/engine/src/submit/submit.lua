-- submit: append or schedule jobs that have ids, each once. A job that has a record is left as it is, whatever its
-- state. A job with a unique key takes its lock; a lock is stale if its holder is not alive. A job is refused alone if
-- its own keys, or its batch, are of another type. The script begins with the write that a full Redis refuses, so it is refused as a
-- whole.
-- most: the producer's limit of the depth or ''. Then for each job its keys (held and ledger are the record of the lock's
-- holder and the ledger of the holder's steps), its values in the order of NAMES, and `count` further values:
--   due: 'now', or 'in' or 'at' this many ms; their fraction orders jobs that are due at the same time
--   window: ms for which the id is remembered
--   member: '1' for a member of a batch
--   key: the unique key or ''
--   scope: 'waiting', 'running' or 'window', which is lock_ms long
--   mode: 'reject', 'replace' or 'debounce'
--   holder: the holder whose record is named or ''
--   holder_lane, holder_entry: where a search found the holder or ''
--   sought: 'gone' if the search found it nowhere, 'lost' if the search was not complete, or ''
--   read, wanted: for 'debounce' the holder's packed fields as they were read and as they are to be, or ''
--   token: the last part of the name of the key that has its large fields or ''
--   the further values: names and values flat for 'now', or the packed fields in two parts: before and after the 13
--     digits of the time of its acceptance
-- returns {jobs, then for each its outcome, a job's id, and that job's state}, or {-1, depth, limit} if they do not fit.
--   The outcomes: 'new'; 'known' its id; 'held' by the holder; 'replaced' the holder; 'debounced' into the holder. With the
--   others nothing was done. 'holder': send again with this holder's record and, for 'debounce', its fields; 'hidden': search
--   for the holder's entry in the lane and from the time on that the state names; 'again': send the same again, because much
--   had to be followed; 'refused': the state is the reason;
--   'left_out': its batch cannot wait for the existing job. A call that is sent twice gets its receipt as the answer.
-- A member that is not accepted is done when the existing job is: m:<member> is =<that job>, w:<that job> the number of
-- such members, and that job's record names the batch in `batches`. If that job is replaced, w:<it> is ><the other
-- one>.
local control, delayed, packs, wake, high, normal, low, receipt = unpack(KEYS, 1, 8)
local most = ARGV[1]
local FIRST_KEY, OWN_KEYS = 9, 5
local FIRST_JOB, NAMES = 2, { 'id', 'generation', 'lane', 'type', 'due', 'ms', 'window', 'member', 'key', 'scope', 'lock_ms',
  'mode', 'holder', 'holder_lane', 'holder_entry', 'sought', 'read', 'wanted', 'token', 'count' }
local given = receipt_of(receipt)
if given then return given end
local now = now_ms()
local lanes = { high = high, normal = normal, low = low }
-- The most batches, besides its own, that a job's end can report to.
local MOST_BATCHES = 100
local jobs, at = {}, FIRST_JOB
while at <= #ARGV do
  local key = FIRST_KEY + OWN_KEYS * #jobs
  local job = { record = KEYS[key], lock = KEYS[key + 1], held = KEYS[key + 2], ledger = KEYS[key + 3],
    batch = KEYS[key + 4], first = at + #NAMES }
  for nth, name in ipairs(NAMES) do job[name] = ARGV[at + nth - 1] end
  job.last = job.first + tonumber(job.count) - 1
  local fits = job.due ~= 'now' or make_entry(job.last - job.first + 1)
  if not fits then return refuse_fields(#jobs + 1, job.last - job.first + 1) end
  job.large = offloaded_key(delayed, job.token)
  must_be_offloaded(job.large)
  jobs[#jobs + 1] = job
  at = job.last + 1
end
-- The known state of a job, and its member of the delayed set if it is in there.
local function state_of(record, id)
  return standing_of(redis.call('HMGET', record, 'state', 'member'), id, delayed)
end
-- True if the holder of a lock is still entitled to it.
local function holds(job, state)
  local reply = redis.call('HMGET', job.held, 'unique', 'unique_scope')
  return is_entitled(reply[1], reply[2], job.key, state)
end
-- The jobs that wait in waiting lists; see note_location.
local in_rooms = waitlist_locations_key(delayed)
-- The campaign that replayed a job, as its fields say, flat from this position on; nil if none did.
local function campaign_of(fields, first)
  for field = first, #fields - 1, 2 do
    if fields[field] == 'campaign' then return string.match(tostring(fields[field + 1]), '^([%w%-]+) [%w%-]+ %d+$') end
  end
end
-- The stream, the entry, the key of the large fields and the campaign of a holder, if this entry is it, and whether a worker
-- has taken it.
local function found_in(job, stream, entry)
  if not entry or not stream then return nil end
  local found = redis.call('XRANGE', stream, entry, entry)[1]
  if not found then return nil end
  local generation = redis.call('HGET', job.held, 'life')
  local token = nil
  for field = 1, #found[2], 2 do
    local name, value = found[2][field], found[2][field + 1]
    if generation and name == 'life' and value ~= generation then return nil end
    if name == 'offloaded' then token = string.match(value, '^(%S+) ') end
  end
  return { stream, entry, offloaded_key(delayed, token or ''), campaign_of(found[2], 1) }, pending_of(stream, entry) ~= nil
end
-- A place in a waiting list by its name: a stream and an entry.
local function spot_of(name)
  local spot = redis.pcall('HGET', in_rooms, name)
  local parked, waitlist = string.match(type(spot) == 'string' and spot or '', '^(%S+) (.+)$')
  if parked then return waitlist_key(delayed, waitlist), parked end
end
-- The place where the holder is; nil if it is elsewhere.
local function found_at(job)
  for _, name in ipairs({ job.holder, second_name(job.holder, redis.call('HGET', job.held, 'life')) }) do
    local location, taken = found_in(job, spot_of(name))
    if location then return location, taken end
  end
  local lane = job.holder_lane ~= '' and job.holder_lane or redis.call('HGET', job.held, 'lane')
  local entry = job.holder_entry ~= '' and job.holder_entry or redis.call('HGET', job.held, 'entry')
  return found_in(job, lanes[lane], entry)
end
-- What to assume of a holder that is in no known place: 'gone' because somebody deleted it, 'lost' if that is unknown,
-- or 'hidden' if it must be searched for. The record of a job that waits or runs always names its entry. That of a job
-- that was due does not.
local function locate_holder(job)
  local seen = redis.call('HGET', job.held, 'state')
  -- Another generation of its id waits in a waiting list. A worker of an older version may have given it the place that the holder had.
  local waitlist, parked = spot_of(job.holder)
  if waitlist and redis.call('XRANGE', waitlist, parked, parked)[1] then return 'lost' end
  if seen == 'waiting' or seen == 'running' then return 'gone' end
  if job.sought ~= '' then return job.sought end
  -- Most of them wait in their lane only briefly. Only if the holder is late is it worth checking that it still exists.
  local due = tonumber(redis.call('HGET', job.held, 'due_ms') or '') or 0
  return (job.mode == 'replace' or now - due > 60000) and 'hidden' or 'lost'
end
-- True if this member of the delayed set is the generation that holds the lock, not another generation of the same id.
local function is_held(job, member)
  local generation = redis.call('HGET', job.held, 'life')
  local there = generation and generation_of(redis.call('HGET', packs, member) or '')
  return not there or there == generation
end
-- The batches, besides its own, that the end of the job of this record counts for.
local function batches_of(record)
  local is_list, list = pcall(cmsgpack.unpack, redis.call('HGET', record, 'batches') or '')
  return is_list and type(list) == 'table' and list or {}
end
-- Where to search for a holder that was due: its lane, and the time before which it has no entry there.
local function hint(job)
  return redis.call('HGET', job.held, 'lane') .. ' ' .. (redis.call('HGET', job.held, 'due_ms') or '0')
end
-- Decides the fate of a job: a verdict, a job's id, its state, and the place of a holder to be replaced or
-- debounced: a stream and an entry, or a member of the delayed set.
local function judge(job)
  if job.member == '1' then redis.call('HEXISTS', job.batch, 'left') end
  local known = state_of(job.record, job.id)
  if known then return 'known', job.id, shown_state(known, job.record, lanes) end
  local holder = job.key ~= '' and redis.call('GET', job.lock)
  if not holder or holder == job.id then return 'new', job.id end
  if holder ~= job.holder then return 'holder', holder, '' end
  local state, member = state_of(job.held, holder)
  if not state or not holds(job, state) then return 'new', job.id end
  local location, taken
  if state == 'waiting' or state == 'running' then
    location, taken = found_at(job)
    local missing = not location and locate_holder(job)
    if missing == 'gone' then return 'new', job.id end
    if missing == 'hidden' then return 'hidden', holder, hint(job) end
    if taken then state = 'running' end
  end
  -- One of its steps may have run: then it must not be cancelled, nor may the remaining steps see another payload.
  if job.mode == 'reject' or redis.call('EXISTS', job.ledger) == 1 then return 'held', holder, state end
  if job.mode == 'debounce' then
    if state ~= 'scheduled' or redis.call('HGET', job.held, 'type') ~= job.type or not is_held(job, member) then
      return 'held', holder, state
    end
    if redis.call('HGET', packs, member) ~= job.read then return 'holder', holder, '' end
    local wanted = offloaded_by(job.wanted, delayed)
    if is_offloaded(wanted) and redis.call('EXISTS', wanted) == 0 then
      return 'refused', job.id, 'the key ' .. wanted .. ', which has the large fields of the job, is gone'
    end
    return 'debounced', holder, state, member
  end
  -- Its replacement could not report to all of them and its own.
  if #batches_of(job.held) >= MOST_BATCHES then return 'held', holder, state end
  if member and is_held(job, member) then return 'replaced', holder, state, member end
  if location and not taken then return 'replaced', holder, state, location end
  return 'held', holder, state
end
-- Judges a job; 'refused' if one of the keys that belong to this job alone is of another type.
local function judged(job)
  local answer = { pcall(judge, job) }
  if answer[1] then return unpack(answer, 2) end
  local why = type(answer[2]) == 'table' and answer[2].err or answer[2]
  if string.find(why, 'WRONGTYPE', 1, true) then return 'refused', job.id, why end
  error(answer[2], 0)
end
-- The fates that were decided before the first write, and the keys that earlier jobs of this call have changed since. Reading a
-- large holder takes long.
local decided, touched = {}, {}
local function decide(job)
  local is_stale = touched[job.record] or job.key ~= '' and touched[job.lock] or job.holder ~= '' and touched[job.held]
  if decided[job] and not is_stale then return unpack(decided[job], 1, 4) end
  return judged(job)
end
-- Nothing is written if one of these fails.
redis.call('ZCARD', delayed)
for _, stream in ipairs({ high, normal, low }) do redis.call('XLEN', stream) end
local limit = depth_limit(control, most)
if limit and overfull(limit, #jobs, delayed, high, normal, low) then
  local more = 0
  for _, job in ipairs(jobs) do
    decided[job] = { judged(job) }
    if decided[job][1] == 'new' then more = more + 1 end
  end
  local full = more > 0 and overfull(limit, more, delayed, high, normal, low)
  if full then
    for _, job in ipairs(jobs) do forget_offloaded(job.large) end
    return full
  end
end
for _, job in ipairs(jobs) do
  if job.mode == 'replace' then
    -- Changes nothing, as there is no receipt, but a full Redis refuses it.
    redis.call('SET', receipt, '', 'XX')
    redis.call('XDEL', normal, NO_ENTRY)
    break
  end
end
local function score_of(job)
  if job.due == 'at' then return tonumber(job.ms) end
  return now + tonumber(job.ms)
end
local function add(job)
  local state, created = 'waiting', string.format('%013.0f', now)
  local fields
  if job.due == 'now' then
    local entry = must_append(lanes[job.lane], ARGV, job.first, job.last)
    created = string.match(entry, '^%d+')
    fields = { 'entry', entry }
  else
    state = 'scheduled'
    redis.call('HSET', packs, job.id, ARGV[job.first] .. created .. ARGV[job.last])
    redis.call('ZADD', delayed, score_of(job), job.id)
    fields = { 'due_ms', math.floor(score_of(job)) }
    nudge(delayed, wake, { [job.id] = true })
  end
  keep_offloaded(job.large)
  if job.member == '1' then add_pair(fields, 'batch', job.batch) end
  if job.key ~= '' then
    add_pair(fields, 'unique', job.key)
    add_pair(fields, 'unique_scope', job.scope)
  end
  redis.call('HSET', job.record, 'state', state, 'life', job.generation, 'type', job.type, 'lane', job.lane, 'created_ms',
    created, 'keep_until_ms', now + math.max(tonumber(job.window), tonumber(job.lock_ms)),
    unpack(fields))
  if job.key == '' then return state end
  redis.call('SET', job.lock, job.id)
  if job.scope == 'window' then redis.call('PEXPIRE', job.lock, math.max(1, tonumber(job.lock_ms))) end
  return state
end
-- How long the record of a job stays that another one replaced. Producers do not know the retention of the queue.
local REPLACED_KEPT_MS = 259200000
local function take_out(job, location)
  local generation, campaign = redis.call('HGET', job.held, 'life') or ''
  if type(location) == 'table' then
    campaign = location[4]
    redis.call('XDEL', location[1], location[2])
    forget_location(in_rooms, job.holder, generation, location[2], waitlist_name(location[1]) or '')
    drop_offloaded(location[3], generation, job.held)
  else
    local packed = unpacked(redis.call('HGET', packs, location) or '')
    campaign = packed and campaign_of(packed, 2)
    unpark(delayed, packs, location, generation, job.held)
  end
  redis.call('HSET', job.held, 'state', 'cancelled', 'error', 'replaced by ' .. job.id)
  expire(job.held, now, REPLACED_KEPT_MS, job.ledger, facts_of(job.held))
  note_cancelled(endings_key(delayed), job.holder, redis.call('HGET', job.held, 'type') or '', 'replaced by ' .. job.id)
  if campaign then count_end(campaign_key(delayed, campaign), generation, 'cancelled') end
end
-- The holder keeps its identity, its priority and its history; only its payload and time change.
local function put_off(job, member)
  local kept, former = offloaded_by(job.wanted, delayed), offloaded_by(job.read, delayed)
  redis.call('HSET', packs, member, job.wanted)
  keep_offloaded(kept)
  if kept ~= former then drop_offloaded(former, redis.call('HGET', job.held, 'life') or '', job.held) end
  local due = math.floor(score_of(job))
  redis.call('ZADD', delayed, due + rank_of(redis.call('ZSCORE', delayed, member)), member)
  redis.call('HSET', job.held, 'due_ms', due)
  if job.scope == 'window' then
    -- A lock without a TTL ends with its job, and none ends sooner than before.
    redis.call('PEXPIRE', job.lock, math.max(1, tonumber(job.lock_ms)), 'GT')
    -- The holder has the lock only as long as it has a record.
    local keep = tonumber(redis.call('HGET', job.held, 'keep_until_ms') or '') or 0
    redis.call('HSET', job.held, 'keep_until_ms', ms_text(math.max(keep, now + tonumber(job.lock_ms))))
  end
  nudge(delayed, wake, { [member] = true })
end
-- Registers further batches with the job of this record, to be counted at its end. Returns to which it can report: the batch to
-- true.
local function counts_for(record, wanted)
  -- No producer submitted it here, so its entry may not mention a record.
  if redis.call('HEXISTS', record, 'keep_until_ms') == 0 then return {} end
  local batches, known = batches_of(record), {}
  local count = #batches
  for _, batch in ipairs(batches) do known[batch] = true end
  for _, batch in ipairs(wanted) do
    if not known[batch] and #batches < MOST_BATCHES then known[batch], batches[#batches + 1] = true, batch end
  end
  if #batches > count then redis.call('HSET', record, 'batches', cmsgpack.pack(batches)) end
  return known
end
-- Adds to the members of a batch that wait for this job.
local function await(batch, id, members)
  local others = tonumber(redis.call('HGET', batch, 'w:' .. id) or '') or 0
  redis.call('HSET', batch, 'w:' .. id, others + members)
end
-- How many more replacements this script follows. A job that was followed before is one or two steps away.
local replacements = 1000
-- The job that counts for a member in its place, and what the batch says about it; nil if none does. Without what the batch
-- says, it was not reached: the rest is followed the next time.
local function stand_in_of(job)
  local other = string.match(redis.call('HGET', job.batch, 'm:' .. job.id) or '', '^=(.*)$')
  if not other then return nil end
  local reached, reply, left = followed(job.batch, other, math.max(replacements, 2))
  replacements = left
  if reached ~= other then redis.call('HSET', job.batch, 'm:' .. job.id, '=' .. reached) end
  return reached, reply
end
-- True unless too many replacements lie between a member and the job that counts for it.
local function is_reached(job)
  local other, reply = stand_in_of(job)
  return not other or reply
end
-- Stops a member from waiting for another job.
local function stands_alone(job)
  local other, reply = stand_in_of(job)
  local others = other and tonumber(reply or '')
  if not others then return end
  redis.call('HSET', job.batch, 'w:' .. other, others - 1)
  redis.call('HSET', job.batch, 'm:' .. job.id, 1)
end
-- True if a job that counts for a member may still succeed.
local function may_succeed(id)
  local state = redis.pcall('HGET', record_key(delayed, id), 'state')
  return type(state) == 'string' and state ~= 'cancelled'
end
-- Handles a member for which another job exists: it completes with that job, or is left out. False if it is left out.
local function stand_in(job, record, id, state)
  local member = 'm:' .. job.id
  local awaits = redis.call('HGET', job.batch, member)
  if not awaits or awaits == '0' then return true end
  local other, reply = stand_in_of(job)
  if other == id or reply == 'done' then return true end
  -- The member was accepted before, and may have been replaced since.
  if id == job.id and state ~= 'cancelled' and redis.call('HGET', record, 'batch') == job.batch then return true end
  if id == job.id and state == 'cancelled' and other and may_succeed(other) then return true end
  if state == 'done' then
    stands_alone(job)
    redis.call('HSET', job.batch, member, 0)
    finish_batch(job.batch, lanes[job.lane], 1)
    return true
  end
  if state ~= 'cancelled' and counts_for(record, { job.batch })[job.batch] then
    stands_alone(job)
    redis.call('HSET', job.batch, member, '=' .. id)
    await(job.batch, id, 1)
    return true
  end
  if redis.call('HGET', job.batch, 'state') == 'open' then
    stands_alone(job)
    redis.call('HDEL', job.batch, member)
    redis.call('HINCRBY', job.batch, 'left', -1)
    redis.call('HINCRBY', job.batch, 'size', -1)
  end
  return false
end
-- Members that wait for a replaced job wait for its replacement instead.
local function hand_over(job)
  local batches, own, members, awaiting = batches_of(job.held), redis.call('HGET', job.held, 'batch'), {}, {}
  if own then batches[#batches + 1] = own end
  for _, batch in ipairs(batches) do
    -- A key of another type is not a batch.
    local waiting = redis.pcall('HGET', batch, 'w:' .. job.holder)
    local count = tonumber(type(waiting) == 'string' and waiting or '') or 0
    if count > 0 then redis.call('HSET', batch, 'w:' .. job.holder, '>' .. job.id) end
    if redis.pcall('HGET', batch, 'm:' .. job.holder) == '1' then
      redis.call('HSET', batch, 'm:' .. job.holder, '=' .. job.id)
      count = count + 1
    end
    if count > 0 then members[batch], awaiting[#awaiting + 1] = count, batch end
  end
  local counted = awaiting[1] and counts_for(job.record, awaiting)
  for _, batch in ipairs(awaiting) do
    if counted[batch] then await(batch, job.id, members[batch]) end
  end
end
local answer, changed, added = { #jobs }, false, {}
for _, job in ipairs(jobs) do
  local verdict, id, state, location = decide(job)
  if job.member == '1' and verdict ~= 'refused' and not is_reached(job) then verdict, id, state = 'again', job.id, '' end
  if verdict == 'new' or verdict == 'replaced' then state = add(job) end
  if verdict == 'replaced' then
    hand_over(job)
    take_out(job, location)
  end
  if verdict == 'debounced' then put_off(job, location) end
  if job.member == '1' then
    local record = verdict == 'known' and job.record or job.held
    if verdict == 'new' or verdict == 'replaced' then
      stands_alone(job)
    elseif (verdict == 'known' or verdict == 'held' or verdict == 'debounced') and not stand_in(job, record, id, state) then
      verdict = 'left_out'
    end
  end
  job.is_added = verdict == 'new' or verdict == 'replaced'
  if job.is_added or verdict == 'debounced' or job.member == '1' then
    for _, key in ipairs({ job.record, job.lock, job.held }) do touched[key] = true end
  end
  job.is_open = verdict == 'holder' or verdict == 'hidden' or verdict == 'again'
  added[job.id] = added[job.id] or job.is_added
  -- An earlier call accepted this very job, and its answer was lost.
  local is_own = verdict == 'known' and job.key ~= '' and not added[id]
  if is_own and redis.call('HGET', job.record, 'life') == job.generation then verdict = 'new' end
  changed = changed or job.is_added or verdict == 'debounced'
  for _, part in ipairs({ verdict, id, state or '' }) do answer[#answer + 1] = part end
end
if changed then keep_receipt(receipt, answer) end
for _, job in ipairs(jobs) do
  if not job.is_added and not job.is_open then forget_offloaded(job.large) end
end
return answer
