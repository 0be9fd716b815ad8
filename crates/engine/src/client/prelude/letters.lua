-- letters: dead letters, from the job that is buried to the letter that is dropped or replayed.

-- A dead letter, as XRANGE returns it; nil if it is gone.
local function letter_at(dead, id)
  return redis.call('XRANGE', dead, id, id)[1]
end

-- Which of these dead letters exist: a table with their ids as keys. It asks as is_unread does, by a group that nobody reads.
local function existing_letters(dead, ids)
  local exist, asked = {}, {}
  for _, id in ipairs(ids) do
    -- Somebody may have written another name into the list of the letters.
    local ms, nth = string.match(id, '^(%d+)-(%d+)$')
    if ms and #ms < 17 and #nth < 17 then asked[#asked + 1] = id end
  end
  if not asked[1] or redis.call('EXISTS', dead) == 0 then return exist end
  local removed = redis.pcall('XGROUP', 'DELCONSUMER', dead, PROBE, PROBE)
  if type(removed) == 'table' then
    if not string.find(removed.err, 'NOGROUP', 1, true) then error(removed) end
    redis.call('XGROUP', 'CREATE', dead, PROBE, '$')
  end
  asked[#asked + 1], asked[#asked + 2] = 'FORCE', 'JUSTID'
  for _, id in ipairs(redis.call('XCLAIM', dead, PROBE, PROBE, '9007199254740991', unpack(asked))) do exist[id] = true end
  redis.call('XGROUP', 'DELCONSUMER', dead, PROBE, PROBE)
  return exist
end

-- What the list says about a letter: its group, its fingerprint, the id of its job, and the number of a recount or 0; nil if it is
-- not in the list.
local function listed_letter(dead, letter)
  local reply = redis.pcall('HGET', letters_key(dead), letter)
  local group, fingerprint, id, nth = string.match(type(reply) == 'string' and reply or '', '^(%w*):(%w*) (%S*) ?(%d*)$')
  return group, fingerprint, id, tonumber(nth or '') or 0
end

-- Names in the record the letter that holds the end of this generation, and what removing it takes: its group and its
-- fingerprint, as write_letter returns them, and the token of the key of its large fields. The letter itself may be large.
local function name_letter(record, letter, generation, group, offloaded)
  local token = name_in(offloaded, 'offloaded') or ''
  redis.call('HSET', record, 'letter:' .. letter, generation, 'dead:' .. generation, letter, 'group:' .. letter, group .. ' ' .. token)
end

-- Names in the record a letter that is new to it; the record stays while it has letters.
local function mark_letter(record, letter, generation, group, offloaded)
  name_letter(record, letter, generation, group, offloaded)
  hold_record(record)
end

-- Removes a letter that is gone from the record.
local function unmark_letter(record, letter, ledger)
  local generation = redis.call('HGET', record, 'letter:' .. letter)
  if not generation then return end
  redis.call('HDEL', record, 'letter:' .. letter, 'group:' .. letter, 'dead:' .. generation)
  release_record(record, ledger)
end

-- Takes a dead letter that is gone out of its group, if it was counted: it names its group, or a recount has counted it. A
-- recount counts letters that name the group `other` like those that name none. group, fingerprint: what its fields say, or
-- ''. nth: if somebody deleted it by hand, the last recount that has counted it: no other one has found it.
local function uncount_letter(dead, id, group, fingerprint, nth)
  local groups, coming, counted, bound, cursor, done_nth, coming_nth = group_tables(dead)
  if group == '' then group = nil end
  if fingerprint == '' then fingerprint = 'none' end
  local function take(from, is_recounted)
    local of = not (is_recounted and group == 'other') and group
    take_from_group(from, of or (redis.pcall('HEXISTS', from, fingerprint) == 1 and fingerprint or 'other'), id)
  end
  local function was_found_by(recount)
    return not nth or not recount or nth >= recount
  end
  local is_recounted = is_up_to(id, counted)
  if is_recounted and was_found_by(done_nth) or group and not is_recounted then take(groups, is_recounted) end
  if not coming then return end
  is_recounted = is_up_to(id, cursor)
  if is_recounted and was_found_by(coming_nth) or group and not is_up_to(id, bound) then
    take(coming, is_recounted)
  elseif is_up_to(id, bound) then
    -- The recount may have read it already, and must not count it.
    local _, gone = recount_keys(dead)
    redis.pcall('HSET', gone, id, 1)
  end
end

-- Deletes a dead letter, and forgets it in its group and in the list. group, fingerprint: what its fields say, or ''. False if
-- the letter is gone. Nothing else deletes letters.
local function remove_letter_of(dead, id, group, fingerprint)
  if redis.call('XDEL', dead, id) == 0 then return false end
  redis.pcall('HDEL', letters_key(dead), id)
  uncount_letter(dead, id, group, fingerprint)
  return true
end

-- Removes a letter that has been read, as XRANGE returns it. Somebody may have written it by hand.
local function remove_letter(dead, letter)
  local function named(field)
    local name = field_of(letter, field) or ''
    return #name <= 64 and string.find(name, '^%w+$') and name or ''
  end
  return remove_letter_of(dead, letter[1], named('dead_group'), named('dead_fingerprint'))
end

-- A raw XADD of a dead letter's fields moves the letter; `generation` and `at` identify it by those fields. own: the token of
-- the entry's large fields, or ''.
local function move_letter(dead, record, generation, at, own)
  local letter = generation ~= '' and redis.call('HGET', record, 'dead:' .. generation)
  if not letter and at ~= '' then
    -- Letters of older versions do not name the generation that ended in them.
    letter = redis.call('HGET', record, 'dead_id')
    local found = letter and letter_at(dead, letter)
    if not found or field_of(found, 'dead_at_ms') ~= at then return end
  end
  if not letter then return end
  local reply = redis.call('HGET', record, 'group:' .. letter)
  local group, fingerprint, token = string.match(reply or '', '^(%w*):(%w+) (%S*)$')
  if group then
    local is_listed, _, _, nth = listed_letter(dead, letter)
    -- Otherwise, somebody has deleted it by hand.
    if not remove_letter_of(dead, letter, group, fingerprint) and is_listed then
      redis.pcall('HDEL', letters_key(dead), letter)
      uncount_letter(dead, letter, group, fingerprint, nth)
    end
  else
    -- An older version wrote it.
    local found = letter_at(dead, letter)
    if found then
      remove_letter(dead, found)
      token = string.match(field_of(found, 'offloaded') or '', '^(%S+) ')
    end
  end
  -- The letter has been edited since its fields were copied, so it had a key of its own. Somebody may have copied it, too.
  if token and token ~= '' and token ~= own then
    leave_to_copies(offloaded_key(dead, token))
  end
  unmark_letter(record, letter)
end

-- Appends these fields to the dead stream, and counts the letter in the group of its fingerprint, which the letter then
-- names. deaths: 1, or 0 if it takes the place of another letter. record: that of its job, or ''. Nothing else writes letters.
-- Returns the letter's id or an error, and 'group:fingerprint', without a group if it is not counted; never throws.
local function write_letter(dead, fields, fingerprint, deaths, ms, job_type, reason, error_text, record)
  local groups, coming = group_tables(dead)
  local group = group_for(groups, fingerprint)
  add_pair(fields, 'dead_fingerprint', fingerprint)
  if group ~= '' then add_pair(fields, 'dead_group', group) end
  local letter, named = append(dead, fields, 1, #fields), group .. ':' .. fingerprint
  if type(letter) == 'table' then return letter, named end
  redis.pcall('HSET', letters_key(dead), letter, named .. ' ' .. (name_in(record, 'job') or ''))
  if group == '' then return letter, named end
  add_to_group(groups, group, deaths, ms, letter, job_type, reason, error_text)
  if coming then add_to_group(coming, group, deaths, ms, letter, job_type, reason, error_text) end
  return letter, named
end

-- Writes a dead letter with other fields under a new id, because the fields of an entry never change. What the record says
-- about the letter, it says about the new one, and the old one is deleted. as: its fingerprint, the ms of its death, its
-- type, its reason and its error. kept: the key of its large fields. Returns its id, or an error: then nothing was changed.
local function replace_letter(dead, record, old, fields, as, kept)
  local fingerprint, ms, job_type, reason, error_text = unpack(as)
  local generation, dead_id = unpack(redis.call('HMGET', record, 'letter:' .. old[1], 'dead_id'))
  local new, group = write_letter(dead, fields, fingerprint, 0, tonumber(ms), job_type, reason, error_text, record)
  if type(new) == 'table' then return new end
  if generation then
    redis.call('HDEL', record, 'letter:' .. old[1], 'group:' .. old[1])
    name_letter(record, new, generation, group, kept)
  end
  if dead_id == old[1] then redis.call('HSET', record, 'dead_id', new, 'type', job_type) end
  remove_letter(dead, old)
  return new
end

-- Sets aside in the dead stream packed fields that cannot go to a lane. Returns the letter's id or an error; never throws.
local function set_aside(dead, packed, job, why, now)
  local fields = { 'raw', packed, 'dead_job', job, 'dead_reason', 'malformed', 'dead_error', why, 'dead_at_ms',
    string.format('%.0f', now) }
  local fingerprint = string.sub(redis.sha1hex('malformed ' .. why), 1, 16)
  local letter = write_letter(dead, fields, fingerprint, 1, now, '', 'malformed', why, '')
  if type(letter) == 'string' and journal_of(dead) then
    write_end(dead, { 'life', 'letter-' .. letter, 'id', job, 'state', 'dead', 'created_ms', ms_text(now), 'ended_ms', ms_text(now), 'reason',
      'malformed', 'error', why, 'fingerprint', fingerprint, 'letter', letter },
      needs_fields(dead, true) and cmsgpack.pack({ 'normal', unpack(fields) }) or '')
  end
  return letter
end

-- Ends the record of a job one of whose letters is gone, with the ledger of its steps if one is named, unless another generation uses
-- it. keep_ms: how long the ledger stays if somebody needs it. Copies of the letter say themselves which steps are done.
local function end_dead_record(record, ledger, letter, keep_ms)
  unmark_letter(record, letter, ledger)
  local reply = redis.call('HMGET', record, 'state', 'dead_id', 'holds')
  local is_its = reply[2] == letter or not reply[2] and reply[3]
  if reply[1] ~= 'dead' or not is_its or tonumber(reply[3] or '0') > 0 then
    if reply[2] == letter then redis.call('HDEL', record, 'dead_id') end
    return
  end
  redis.call('DEL', record)
  if not ledger then return end
  -- Another generation of this id may be on its way and must not repeat what is done, so such a ledger outlives the letter.
  local is_needed = tonumber(redis.call('HGET', ledger, 'lives') or '0') > 0 or has_begun_once(ledger)
  if is_needed then expire_ledger(ledger, keep_ms) else redis.call('DEL', ledger) end
end

-- Fails if Redis is full, or if the login may not delete letters. Changes nothing. SETRANGE is a write that a full Redis
-- refuses, and it creates no key for no bytes; XDEL is not refused.
local function must_end_letters(dead)
  redis.call('SETRANGE', lock_key(dead, ''), 0, '')
  redis.call('XDEL', dead, NO_ENTRY)
end

-- Moves a dead letter back to its original lane, as a new generation with the old fields and id. Fields that would bury the
-- job at once are dropped: a replayed job is meant to run, even after its expiry. The record of its steps moves with
-- it, unless they are all to run again. campaign: what the job says about the campaign that replays it, or nil. Returns
-- the new entry's id and the new generation.
local function back_to_lane(dead, letter, record, streams, all_steps, campaign)
  must_end_letters(dead)
  local lanes = { high = streams[1], normal = streams[2], low = streams[3] }
  local spent = { replays = true, replay_of = true, expires_at_ms = true, root = true, life = true, created_ms = true,
    campaign = true }
  local fields, lane, replays, root, former = {}, 'normal', 0, nil, nil
  for at = 1, #letter[2], 2 do
    local name, value = letter[2][at], letter[2][at + 1]
    if name == 'dead_origin' and lanes[value] then lane = value end
    if name == 'replays' then replays = tonumber(value) or 0 end
    if name == 'dead_life' then former = value end
    if name == 'dead_root' then root = value end
    if name == 'offloaded' then
      redis.call('PERSIST', offloaded_key(dead, string.match(value, '^(%S+) ') or ''))
    end
    local is_kept = name == 'dead_steps' and not all_steps
    if is_kept or string.sub(name, 1, 5) ~= 'dead_' and not spent[name] then add_pair(fields, name, value) end
  end
  if root or former then add_pair(fields, 'root', root or former) end
  if campaign then add_pair(fields, 'campaign', campaign) end
  add_pair(fields, 'replay_of', letter[1])
  add_pair(fields, 'replays', string.format('%.0f', replays + 1))
  local owner = redis.call('HMGET', record, 'life', 'state', 'dead_id')
  local entry = must_append(lanes[lane], fields, 1, #fields)
  local generation = entry .. (lane == 'normal' and '' or '-' .. lane)
  if owner[2] and (not owner[1] or owner[1] == former or has_ended(owner[2])) then
    redis.call('HSET', record, 'state', 'waiting', 'entry', entry, 'lane', lane, 'created_ms',
      string.match(entry, '^%d+'), 'life', generation)
    if root or former then redis.call('HSET', record, 'root', (root or former) .. ' ' .. generation) end
    redis.call('HDEL', record, 'dead_id', 'late', 'first_failed_ms', 'member', 'children')
    redis.call('PERSIST', record)
  end
  remove_letter(dead, letter)
  unmark_letter(record, letter[1])
  return entry, generation
end
