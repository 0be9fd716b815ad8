-- cancel: end a life of a job at once if no worker holds it; otherwise note the request. The worker that holds it
-- checks for such requests twice a second, and no later attempt of it starts.
-- stream: that of its lane. place: the stream that has its entry, which is its lane or a room. places: see note_place.
-- entry, created_ms: '' if not known. insists: '1' to note the request even if its entry is not known. life: the life that
-- was found, or '' if its fields name none. task, page: the task that asks, if one does; see is_on_page.
-- returns {1} cancelled, {2, '1' or, if it was noted before, '0'} the request is noted, {0} unknown job, {3, state} it has already
--   ended, {4} it has moved, {5} the task is not on this page
local delayed, packs, record, cancels, stream, lock, batch, ledger, cancel_places, endings, offloaded, place,
  places, task = unpack(KEYS)
local id, entry, retention_ms, who, job_type, lane, created_ms, ends, insists, life, page = unpack(ARGV)
local now = now_ms()
if not is_on_page(task, page) then return { 5 } end
-- Nothing is written if one of these fails: no entry is deleted whose end cannot be noted. Redis allows the writes even when
-- it is out of memory, and then admits the others.
redis.call('ZREM', cancels, '')
redis.call('HDEL', cancel_places, '')
local told = redis.call('HMGET', record, 'state', 'life')
if ends ~= '' then redis.call('XLEN', stream) end
local function cancelled()
  redis.call('ZREM', cancels, life)
  redis.call('HDEL', cancel_places, life)
  local is_owner, facts = owns(record, life)
  if is_owner then
    redis.call('HSET', record, 'state', 'cancelled', 'error', 'cancelled by ' .. who, 'cancelled_by', who)
    if life ~= '' then redis.call('HSET', record, 'life', life) end
    if job_type ~= '' then redis.call('HSET', record, 'type', job_type, 'lane', lane) end
    if created_ms ~= '' then redis.call('HSET', record, 'created_ms', created_ms) end
  end
  conclude(ends, id, record, stream, lock, batch, is_owner)
  retire(record, ledger, life, is_owner, now, retention_ms, facts)
  drop_offloaded(offloaded, life, record)
  leave_word(endings, id, job_type, 'cancelled by ' .. who)
  count_for_task(task, 'done', 1, now)
end
local function wished(spot)
  local is_new = redis.call('ZREM', cancels, life) == 0
  redis.call('ZADD', cancels, now, life)
  if is_new then count_for_task(task, 'requested', 1, now) end
  if spot then redis.call('HSET', cancel_places, life, spot .. ' ' .. who) end
  if told[1] and (not told[2] or told[2] == life) then redis.call('HSET', record, 'cancelled_by', who) end
  return { 2, is_new and '1' or '0' }
end
-- True if an attempt of this life succeeded late, so that the job is done and what was found is its retry, which goes.
local function was_done()
  if not is_done(record, life) then return false end
  meet_late(record, life)
  return true
end
local member = parked(delayed, packs, id, life)
if not member and entry == '' and redis.call('ZSCORE', delayed, id) then
  -- Fields that name no life were written by a producer.
  local pack = redis.call('HGET', packs, id)
  if not pack or not life_of(pack) then member = id end
end
if member then
  local is_late = was_done()
  if not is_late then cancelled() end
  unpark(delayed, packs, member, life, record)
  if is_late then return { 3, 'done' } end
  count_last_end()
  return { 1 }
end
if entry ~= '' then
  if place == stream and pending_of(stream, entry) then return wished(lane .. ' ' .. entry) end
  if redis.call('XDEL', place, entry) == 1 then
    if place ~= stream then
      forget_place(places, id, life, entry, room_name(place) or '')
      if redis.call('XLEN', place) == 0 then redis.call('DEL', place) end
    end
    if was_done() then
      drop_offloaded(offloaded, life, record)
      return { 3, 'done' }
    end
    cancelled()
    count_last_end()
    return { 1 }
  end
end
if has_ended(told[1]) then return { 3, told[1] } end
if told[1] and insists == '1' then
  if life == '' then life = told[2] or id end
  return wished()
end
return { told[1] and 4 or 0 }
