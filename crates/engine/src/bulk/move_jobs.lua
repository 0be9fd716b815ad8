-- move_jobs: move jobs that no worker holds to another queue of the same server, in one step each: a job is appended there and
-- taken from here, with its record and its lock. A job that Redis refuses keeps no other from moving. A call that is sent
-- twice gets its receipt as the answer.
-- by: who moves them. target: the other queue. most_weight: after records that weigh this much, see weigh, the rest are left
-- for another call. max_depth: the most jobs that the other queue accepts, or '' for what its fleet has agreed on. mark: see
-- with_mark. task, page: the task that moves them, see is_on_page. Each job has
-- nine keys: place (the stream with its entry, or the delayed set), record, ledger, lock, offloaded; and in the other queue
-- to_record, to_lock, kept (the key of its large fields there) and to_named (the record of a job whose id is this generation). Then
-- for each job: its id, its generation or '', its own lane, its member of the delayed set or '', its entry or '', the packed fields
-- that were read if other ones take their place or '', '1' if an entry of this generation was seen in a lane of the other queue (it may
-- be large, so the caller has looked), and `count` further values: the fields of its entry, flat, or the
-- packed fields to replace those that were read.
-- returns {0} the task is not on this page; {1, an answer or an error for each job}: 'moved'; 'gone' it is no longer there; 'later'
--   send again; or why it stays: 'running', 'cancelling', 'steps' it has begun steps, 'batch' others count on it, 'letters' dead
--   letters or a late success need its record, 'large' its record, 'taken' a job of the other queue has its id, its generation or its
--   unique key, 'full' the other queue accepts no more jobs, 'changed' its fields
local delayed, packs, locations, cancels, receipt, to_delayed, to_packs, to_locations, to_wake, high, normal, low, to_control, counts,
  to_counts, task = unpack(KEYS, 1, 16)
local by, target, most_weight, max_depth, mark, page = unpack(ARGV, 1, 6)
local FIRST_KEY, KEYS_EACH, FIRST_JOB, VALUES_EACH = 17, 9, 7, 8
-- The most fields of a record that moves.
local MOST_FIELDS = 1500
-- One day in ms, and for how many of them a trace stays at most.
local DAY, MOST_DAYS = 86400000, 730
local given = receipt_of(receipt)
if given then return given end
if not is_on_page(task, page) then return { 0 } end
local now, lanes, answer, hurried, copied = now_ms(), { high = high, normal = normal, low = low }, { 1 }, {}, 0
-- Redis allows these even when it is out of memory, and then admits the other writes: a moved job takes no more memory than
-- before. They also prove that this login may write in both queues.
redis.call('ZREM', delayed, '')
redis.call('HDEL', packs, '')
redis.call('HDEL', locations, '')
redis.call('ZREM', to_delayed, '')
redis.call('HDEL', to_packs, '')
for _, lane in pairs(lanes) do redis.call('XDEL', lane, NO_ENTRY) end
-- How many more jobs the other queue accepts.
local limit = depth_limit(to_control, max_depth)
local space = limit and limit - depth_of(to_delayed, high, normal, low) or math.huge
-- True if a job of the other queue has this id or generation, so that the two could be mistaken for each other. The trace that an
-- earlier move of this very generation left there is none.
local function is_taken(job)
  local reply = redis.call('HMGET', job.to_record, 'life', 'state')
  local is_trace = reply[2] == 'cancelled' and reply[1] == job.generation and redis.call('HEXISTS', job.to_record, 'moved_to') == 1
  if not is_trace and redis.call('EXISTS', job.to_record) == 1 then return true end
  if job.to_named ~= job.to_record and redis.call('EXISTS', job.to_named) == 1 then return true end
  for _, name in ipairs({ job.id, job.generation, job.member }) do
    if name ~= '' and redis.call('ZSCORE', to_delayed, name) then return true end
  end
  return job.is_there == '1' or redis.call('HEXISTS', to_locations, job.id) == 1
end
-- True if an entry was delivered. If it is not pending any more, nothing shows whether its job ran; see orphans.
local last_delivered = {}
local function was_delivered(location, entry)
  if last_delivered[location] == nil then
    local group = fleet_group(redis.pcall('XINFO', 'GROUPS', location))
    last_delivered[location] = group and group['last-delivered-id'] or false
  end
  return last_delivered[location] and is_up_to(entry, last_delivered[location])
end
-- True if the lock of its key there keeps a job out. One that was left behind does not: its holder has no record that names the
-- key, has ended, or has no entry where it should wait or run; see submit. One that was due may be anywhere.
local function is_locked_out(job)
  local holder = redis.call('GET', job.lock) == job.id and redis.call('GET', job.to_lock)
  if not holder or holder == job.id then return false end
  local record = record_key(to_delayed, holder)
  local reply = redis.call('HMGET', record, 'state', 'member', 'unique', 'unique_scope', 'lane', 'entry')
  local state = standing_of(reply, holder, to_delayed)
  if not state or not is_entitled(reply[3], reply[4], name_in(job.to_lock, 'unique'), state) then return false end
  local stream = (reply[1] == 'waiting' or reply[1] == 'running') and reply[6] and lanes[reply[5]]
  if not stream or redis.call('HEXISTS', to_locations, holder) == 1 then return true end
  return is_alive(stream, reply[6])
end
-- Why a job stays here; nil if it may move. facts: what its record says, if that belongs to it.
local function obstacle(job, facts)
  if job.entry ~= '' then
    if pending_of(job.location, job.entry) then return 'running' end
    if was_delivered(job.location, job.entry) then
      -- Most of these have ended.
      return is_unread(job.location, job.entry) and 'running' or 'gone'
    end
  elseif not redis.call('ZSCORE', delayed, job.member) then
    return 'gone'
  end
  if is_unwanted(cancels, job.generation) then return 'cancelling' end
  if redis.call('EXISTS', job.ledger) == 1 then return 'steps' end
  if facts and facts.extra then return 'batch' end
  if facts and tonumber(facts.holds or '0') > 0 then return 'letters' end
  if facts and redis.call('HLEN', job.record) > MOST_FIELDS then return 'large' end
  if is_taken(job) then return 'taken' end
  if is_locked_out(job) then return 'taken' end
  if space < 1 then return 'full' end
end
-- Copies the record, with what remains of its TTL.
local function copy_record(job)
  local fields, ttl = redis.call('HGETALL', job.record), redis.call('PTTL', job.record)
  copied = copied + weigh(fields)
  redis.call('DEL', job.to_record)
  redis.call('HSET', job.to_record, unpack(fields))
  if ttl > 0 then redis.call('PEXPIRE', job.to_record, ttl) end
end
-- Takes the record away. If its producer may still resend the id, a trace of it stays, so that the id is not accepted again: for
-- its window, and until a day after now or its due time, because nobody here learns when it ends.
local function leave_trace(job, facts, due)
  local reply = redis.call('HMGET', job.record, 'type', 'lane')
  redis.call('DEL', job.record)
  local window = tonumber(facts.keep_until_ms or '')
  if not window then return end
  local keep = math.min(math.max(window, (due or now) + DAY, now + DAY) - now, MOST_DAYS * DAY)
  redis.call('HSET', job.record, 'state', 'cancelled', 'error', 'moved to the queue ' .. target, 'moved_to', target,
    'cancelled_by', by, 'type', reply[1] or '', 'lane', reply[2] or job.lane, 'created_ms', facts.created_ms or '0', 'life',
    job.generation, 'keep_until_ms', facts.keep_until_ms)
  redis.call('PEXPIRE', job.record, string.format('%.0f', keep))
end
local function copy_lock(job)
  if is_placeholder(job.lock) or redis.call('GET', job.lock) ~= job.id then return false end
  local ttl = redis.call('PTTL', job.lock)
  if ttl > 0 then
    redis.call('SET', job.to_lock, job.id, 'PX', ttl)
  else
    redis.call('SET', job.to_lock, job.id)
  end
  return true
end
-- Returns the entry in the other queue; nil if the job is gone.
local function move_entry(job)
  local entry = must_append(lanes[job.lane], ARGV, job.first, job.last)
  if redis.call('XDEL', job.location, job.entry) == 0 then
    redis.call('XDEL', lanes[job.lane], entry)
    return nil
  end
  local name = waitlist_name(job.location)
  if name then
    forget_location(locations, job.id, job.generation, job.entry, name)
    if redis.call('XLEN', job.location) == 0 then redis.call('DEL', job.location) end
  end
  return entry
end
-- Returns when it is due.
local function move_member(job, wanted)
  local score = redis.call('ZSCORE', delayed, job.member)
  redis.call('HSET', to_packs, job.member, wanted)
  redis.call('ZADD', to_delayed, score, job.member)
  redis.call('ZREM', delayed, job.member)
  redis.call('HDEL', packs, job.member)
  hurried[job.member] = true
  return tonumber(score)
end
local function move(job)
  local facts = facts_of(job.record, job.generation, 'batches')
  local has_record = facts.state and (facts.is_known or not facts.generation)
  if not has_record then facts = nil end
  local why = obstacle(job, facts)
  if why then return why end
  local wanted = nil
  if job.entry == '' then
    wanted = redis.call('HGET', packs, job.member) or ''
    if job.read ~= '' and wanted ~= job.read then return 'changed' end
    -- Another generation of the id may have this place by now.
    local generation = generation_of(wanted)
    if generation and job.generation ~= '' and generation ~= job.generation then return 'changed' end
    if job.read == '' and not is_placeholder(offloaded_by(wanted, delayed)) then return 'changed' end
    if job.read ~= '' then wanted = ARGV[job.first] end
    wanted = with_mark(wanted, mark) or wanted
  elseif not make_entry(job.last - job.first + 1) then
    return 'large'
  end
  -- Nothing is written if one of these fails.
  redis.call('HDEL', job.record, '')
  redis.call('HDEL', job.to_record, '')
  if job.entry ~= '' then redis.call('XDEL', job.location, NO_ENTRY) end
  must_be_offloaded(job.kept)
  -- If the job is gone, the trace that it left in the other queue stays.
  local entry, due = nil, nil
  if wanted then
    due = move_member(job, wanted)
  else
    entry = move_entry(job)
    if not entry then return 'gone' end
  end
  if has_record then
    copy_record(job)
    if entry then redis.call('HSET', job.to_record, 'entry', entry, 'lane', job.lane) end
  end
  local has_lock = copy_lock(job)
  keep_offloaded(job.kept)
  if has_record then leave_trace(job, facts, due) end
  if has_lock then redis.call('DEL', job.lock) end
  drop_offloaded(job.offloaded, job.generation, job.record)
  space = space - 1
  return 'moved'
end
-- The copy of the large fields of a job that stays need not be kept for a day. Another call that moves the job may need it.
local function let_go(copy)
  local left = not is_placeholder(copy) and redis.pcall('PTTL', copy)
  if type(left) == 'number' and left > 60000 then redis.pcall('PEXPIRE', copy, 60000) end
end
-- Notes how many jobs moved, because in the samples they neither arrive nor end. A job moves even if this is refused.
local function count_moved(moved)
  for key, name in pairs({ [counts] = 'moved_out', [to_counts] = 'moved_in' }) do
    redis.pcall('HINCRBY', key, name, moved)
    redis.pcall('PEXPIRE', key, DAY)
  end
end
local key, at, moved = FIRST_KEY, FIRST_JOB, 0
while at <= #ARGV do
  local job = {}
  job.location, job.record, job.ledger, job.lock, job.offloaded, job.to_record, job.to_lock, job.kept, job.to_named =
    unpack(KEYS, key, key + KEYS_EACH - 1)
  job.id, job.generation, job.lane, job.member, job.entry, job.read, job.is_there, job.count =
    unpack(ARGV, at, at + VALUES_EACH - 1)
  job.first = at + VALUES_EACH
  job.last = job.first + tonumber(job.count) - 1
  local done, reply = true, 'later'
  if copied < tonumber(most_weight) then done, reply = pcall(move, job) end
  if not done then reply = type(reply) == 'table' and reply.err or tostring(reply) end
  if reply == 'moved' then moved = moved + 1 elseif reply ~= 'later' then let_go(job.kept) end
  answer[#answer + 1], key, at = reply, key + KEYS_EACH, job.last + 1
end
nudge(to_delayed, to_wake, hurried)
if moved > 0 then count_moved(moved) end
count_for_task(task, 'done', moved, now)
keep_receipt(receipt, answer)
return answer
