-- endings: what follows from the end of a job: its lock, its batches, the task that replayed it, and the jobs that it names.

-- What is to be counted for the job that a script ends: the key of the task that replayed it, its generation, and how it ended; see
-- finish_job. It is counted once nothing can fail any more.
local to_count = {}

-- The field of a task which says that the task replayed this generation, and that its end is not counted yet.
local function replayed_life(generation)
  return 'l:' .. generation
end

-- Counts how a job that a task replayed has ended. Any producer may copy the field that names a task, so only the generations that the
-- task knows count, each once. A task that is gone knows none.
local function count_end(campaign, generation, how)
  if redis.pcall('HDEL', campaign, replayed_life(generation)) == 1 then redis.pcall('HINCRBY', campaign, how, 1) end
end

-- Counts the end of the only job that a script ends: the last thing that this script does.
local function count_last_end()
  if to_count.campaign then count_end(to_count.campaign, to_count.generation, to_count.how) end
end

-- Counts members of a batch as done. Once the batch is closed and all its members are done, appends the job that
-- follows. If that job cannot be appended, which a current producer checks beforehand, it becomes a dead letter, and
-- the last member is settled all the same. If no letter can be written now, the promoter will set it aside.
local function finish_batch(batch, stream, members)
  if redis.call('HINCRBY', batch, 'left', -members) > 0 then return end
  local packed, offloaded = unpack(redis.call('HMGET', batch, 'follow', 'offloaded'))
  if offloaded then keep_offloaded(offloaded) end
  local list = packed and unpacked(packed)
  if list then
    must_append(stream, list, 2, #list)
  elseif packed then
    local name, now = name_in(batch, 'batch') or '', now_ms()
    local letter = set_aside(dead_key(stream), packed, name, 'the job that follows a batch cannot be appended', now)
    -- If neither is possible, the batch keeps it.
    if type(letter) == 'table' and not put_by(stream, name .. ' batch', packed, now + 5000) then return end
  end
  redis.call('HSET', batch, 'state', 'done')
  redis.call('HDEL', batch, 'follow')
end

-- The job that counts for members of a batch that wait for this one, followed from each replaced job to its replacement. Also
-- what the batch says about it: how many members wait for it, or 'done'; nil if there were not enough steps. Then how many
-- steps are left.
local function followed(batch, id, steps)
  while steps > 0 do
    local reply = redis.call('HGET', batch, 'w:' .. id) or 'done'
    local other = string.match(reply, '^>(.*)$')
    steps = steps - 1
    if not other then return id, reply, steps end
    id = other
  end
  return id, nil, 0
end

-- Reports a job's success to a batch. The job may be a member, and members that were not accepted because of it may
-- wait for it. A key of another type is not a batch, and does not keep the job from ending.
local function tell_batch(batch, id, stream)
  local member, members = redis.pcall('HGET', batch, 'm:' .. id), 0
  if type(member) == 'table' then return end
  if member == '1' then
    redis.call('HSET', batch, 'm:' .. id, 0)
    members = 1
  end
  local others = tonumber(redis.call('HGET', batch, 'w:' .. id) or '')
  if others then
    redis.call('HSET', batch, 'w:' .. id, 'done')
    members = members + others
  end
  if members > 0 then finish_batch(batch, stream, members) end
end

-- Tells other batches that count this job's success for a member of theirs; see submit. batches: what the record says about
-- them, if anything.
local function tell_batches(batches, id, stream)
  for _, batch in ipairs(batches and cmsgpack.unpack(batches) or {}) do tell_batch(batch, id, stream) end
end

-- Does what a job's end triggers: frees its lock, reports a success to its batch, and appends the jobs that follow.
-- `ends` is '' or a packed list: how it ended, the first generation of its series of replays, then for each following job
-- 'once' or 'each', the number of its names and values together, and these. once: the job itself names it, and it follows
-- once for each way to end, however often the job is replayed. each: its type names it, and it follows each end; a generation
-- ends once. If a gate let the job pass into another lane, how it ended is followed by its own lane; if it names a campaign,
-- then by the campaign, its generation and what the campaign counts, which are left in to_count. It must come after the first
-- write of its script. A lock belongs to the generation that owns the record. batches: what that record says, for a success; other
-- batches may wait for any job.
local function finish_job(ends, id, record, stream, lock, batch, is_owner, batches)
  if not is_owner then batches = nil end
  if ends == '' then return batches and tell_batches(batches, id, stream) end
  local list, words = cmsgpack.unpack(ends), {}
  for word in string.gmatch(list[1], '%S+') do words[#words + 1] = word end
  local how, own_lane = words[1], (#words == 2 or #words == 5) and words[2]
  if own_lane then
    local own = lane_key(stream, own_lane)
    -- If its own lane is of another type, what follows the job goes where the job was, and the job ends all the same.
    if type(redis.pcall('XLEN', own)) == 'number' then stream = own end
  end
  if words[4] then
    to_count.campaign = campaign_key(stream, words[#words - 2])
    to_count.generation, to_count.how = words[#words - 1], words[#words]
  end
  local at, is_first, children = 3, nil, {}
  while at < #list do
    local often, last = list[at], at + 1 + tonumber(list[at + 1])
    if often == 'once' and is_first == nil then
      is_first = redis.call('HSETNX', record, 'called:' .. list[2] .. ':' .. how, 1) == 1
    end
    if often == 'each' or is_first then children[#children + 1] = must_append(stream, list, at + 2, last) end
    at = last + 1
  end
  if is_owner and children[1] then note_children(record, stream, children) end
  if how == 'done' then
    if not is_placeholder(batch) then tell_batch(batch, id, stream) end
    tell_batches(batches, id, stream)
  end
  if is_placeholder(lock) then return end
  if is_owner and redis.pcall('GET', lock) == id then redis.call('DEL', lock) end
end

-- Leaves a note about a job that was cancelled while no worker held it, for which the leader emits the event. At most a
-- thousand notes are kept, and none for longer than a minute: events may be lost.
local function note_cancelled(endings, id, job_type, why)
  redis.pcall('RPUSH', endings, id .. ' ' .. (job_type == '' and '-' or job_type) .. ' ' .. why)
  redis.pcall('LTRIM', endings, -1000, -1)
  redis.pcall('PEXPIRE', endings, 60000)
end
