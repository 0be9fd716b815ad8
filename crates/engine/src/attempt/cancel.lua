-- cancel: end a generation of a job at once if no worker holds it; otherwise note the request. The worker that holds it
-- checks for such requests twice a second, and no later attempt of it starts.
-- stream: that of its lane. location: the stream that has its entry, which is its lane or a waiting list. locations: see note_location.
-- entry, created_ms: '' if not known. insists: '1' to note the request even if its entry is not known. generation: the generation that
-- was found, or '' if its fields name none. task, page: the task that asks, if one does; see is_on_page.
-- returns {1} cancelled, {2, '1' or, if it was noted before, '0'} the request is noted, {0} unknown job, {3, state} it has already
--   ended, {4} it has moved, {5} the task is not on this page
local delayed, packs, record, cancels, stream, lock, batch, ledger, cancel_locations, endings, offloaded, location,
  locations, task = unpack(KEYS)
local id, entry, retention_ms, who, job_type, lane, created_ms, ends, insists, generation, page = unpack(ARGV)
local now = now_ms()
if not is_on_page(task, page) then return { 5 } end
-- Nothing is written if one of these fails: no entry is deleted whose end cannot be noted. Redis allows the writes even when
-- it is out of memory, and then admits the others.
redis.call('ZREM', cancels, '')
redis.call('HDEL', cancel_locations, '')
local reply = redis.call('HMGET', record, 'state', 'life')
if ends ~= '' then redis.call('XLEN', stream) end
local function cancelled()
  redis.call('ZREM', cancels, generation)
  redis.call('HDEL', cancel_locations, generation)
  local is_owner, facts = owns(record, generation)
  if is_owner then
    redis.call('HSET', record, 'state', 'cancelled', 'error', 'cancelled by ' .. who, 'cancelled_by', who)
    if generation ~= '' then redis.call('HSET', record, 'life', generation) end
    if job_type ~= '' then redis.call('HSET', record, 'type', job_type, 'lane', lane) end
    if created_ms ~= '' then redis.call('HSET', record, 'created_ms', created_ms) end
  end
  finish_job(ends, id, record, stream, lock, batch, is_owner)
  if generation ~= '' and retention_ms ~= '0' and journal_of(stream) then
    local attempts = is_owner and facts.noted and noted_attempts(record, facts.noted) or ''
    write_end(stream, { 'life', generation, 'id', id, 'type', job_type, 'lane', lane, 'state', 'cancelled', 'created_ms', created_ms,
      'ended_ms', ms_text(now), 'attempts', attempts, 'error', 'cancelled by ' .. who }, '')
  end
  retire(record, ledger, generation, is_owner, now, retention_ms, facts)
  drop_offloaded(offloaded, generation, record)
  note_cancelled(endings, id, job_type, 'cancelled by ' .. who)
  count_for_task(task, 'done', 1, now)
end
local function requested(spot)
  local is_new = redis.call('ZREM', cancels, generation) == 0
  redis.call('ZADD', cancels, now, generation)
  if is_new then count_for_task(task, 'requested', 1, now) end
  if spot then redis.call('HSET', cancel_locations, generation, spot .. ' ' .. who) end
  if reply[1] and (not reply[2] or reply[2] == generation) then redis.call('HSET', record, 'cancelled_by', who) end
  return { 2, is_new and '1' or '0' }
end
-- True if an attempt of this generation succeeded late, so that the job is done and what was found is its retry, which goes.
local function was_done()
  if not is_done(record, generation) then return false end
  meet_late(record, generation)
  return true
end
local member = parked(delayed, packs, id, generation)
if not member and entry == '' and redis.call('ZSCORE', delayed, id) then
  -- Fields that name no generation were written by a producer.
  local pack = redis.call('HGET', packs, id)
  if not pack or not generation_of(pack) then member = id end
end
if member then
  local is_late = was_done()
  if not is_late then cancelled() end
  unpark(delayed, packs, member, generation, record)
  if is_late then return { 3, 'done' } end
  count_last_end()
  return { 1 }
end
if entry ~= '' then
  if location == stream and pending_of(stream, entry) then return requested(lane .. ' ' .. entry) end
  if redis.call('XDEL', location, entry) == 1 then
    if location ~= stream then
      forget_location(locations, id, generation, entry, waitlist_name(location) or '')
      if redis.call('XLEN', location) == 0 then redis.call('DEL', location) end
    end
    if was_done() then
      drop_offloaded(offloaded, generation, record)
      return { 3, 'done' }
    end
    cancelled()
    count_last_end()
    return { 1 }
  end
end
if has_ended(reply[1]) then return { 3, reply[1] } end
if reply[1] and insists == '1' then
  if generation == '' then generation = reply[2] or id end
  return requested()
end
return { reply[1] and 4 or 0 }
