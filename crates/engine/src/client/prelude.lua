-- prelude: put before every script. Lua has no rollback, so a script that settles entries works in this order: the fence,
-- then inserts, then the ends of the entries (see settle_each). Redis allows XCLAIM even when it is out of memory, and
-- once a script has written, Redis admits the rest too. So settling never depends on free memory.
-- These names mean the same in every script. packs: delayed:fields. places: cancels:places. ticks: cron:ticks. ledger:
-- that of the steps of a job. offloaded: the key of the large fields of the entry or job in question, see keep_offloaded.
-- outcome, worker: how an attempt ended, and the consumer that ran it. ends: what follows from the end of a job, see
-- conclude. retention_ms: how long its record stays. letter_life, letter_ms: the life that its fields say ended in a
-- letter, and when that letter was written, or ''. call: a name that identifies a call if it is sent twice.

-- The server's clock in milliseconds, the only clock that scripts use. Read once per script.
local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- The times that this script has written as text: most jobs of a call have the same.
local written_times = {}

-- A time in milliseconds as text. The formats for floating-point numbers cost ten times as much, and Redis uses them for
-- each number that a script passes to a command.
local function ms_text(ms)
  local written = written_times[ms] or string.format('%d%07d', math.floor(ms / 1e7), ms % 1e7)
  written_times[ms] = written
  return written
end

-- Appends a name and its value to a flat list.
local function add_pair(list, name, value)
  list[#list + 1] = name
  list[#list + 1] = value
end

-- The number after this one, as text. What is no number counts as 0.
local function text_after(number)
  return string.format('%d', (tonumber(number or '') or 0) + 1)
end

-- Takes, renews or, with a lease of 0, gives up a lease. Returns whether `own` holds it now.
local function take_lease(lease, own, lease_ms)
  local holder = redis.call('GET', lease)
  if holder and holder ~= own then
    -- The holder never set a longer lease, so the server's clock was set back. A holder that is dead must not keep its
    -- place that long.
    if lease_ms > 0 and redis.call('PTTL', lease) > lease_ms then redis.call('PEXPIRE', lease, lease_ms) end
    return false
  end
  -- Redis allows DEL even when it is out of memory, and then admits the SET.
  redis.call('DEL', lease)
  if lease_ms > 0 then redis.call('SET', lease, own, 'PX', lease_ms) end
  return lease_ms > 0
end

-- The facts of the fleet's group, from a reply of XINFO GROUPS; nil if the group is not in it, or if it is an error.
local function fleet_group(groups)
  for _, group in ipairs(groups) do
    local facts = {}
    for at = 1, #group, 2 do facts[group[at]] = group[at + 1] end
    if facts.name == 'fleet' then return facts end
  end
end

-- The pending entry of this id, of this consumer if one is named: its id, its consumer, ms of its silence, how often it
-- was delivered. nil if it is not pending, or its lane cannot be read.
local function pending_of(stream, entry, ...)
  local pending = redis.pcall('XPENDING', stream, 'fleet', entry, entry, 1, ...)
  return not pending.err and pending[1] or nil
end

-- The consumer that gets an entry for a moment, to learn whether it exists. No worker can have this name.
local PROBE = '?'

-- True if an entry of a lane exists and is not pending. XRANGE would hand all of it to Lua, which takes long if it has many MiB,
-- but XCLAIM with FORCE tells its id alone. It takes nothing from other consumers: no entry has been silent that long. A lane
-- without the group does not tell: true.
local function is_unread(stream, entry)
  -- If the login may not do this, nothing is claimed.
  local removed = redis.pcall('XGROUP', 'DELCONSUMER', stream, 'fleet', PROBE)
  if type(removed) == 'table' then
    if string.find(removed.err, 'requires the key to exist', 1, true) then return false end
    if string.find(removed.err, 'NOGROUP', 1, true) then return true end
    error(removed)
  end
  local found = redis.call('XCLAIM', stream, 'fleet', PROBE, '9007199254740991', entry, 'FORCE', 'JUSTID')
  redis.call('XGROUP', 'DELCONSUMER', stream, 'fleet', PROBE)
  return found[1] ~= nil
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

-- True if an error says that the key of a lane has another type, or that it has no group.
local function is_about_lane(text)
  return string.find(text, 'WRONGTYPE', 1, true) ~= nil or string.find(text, 'NOGROUP', 1, true) ~= nil
end

-- Calls `one` for each job of a call: with whether this consumer holds its entry now, the entry, its life, and the
-- positions of its first key and of its first and last value. The arguments of the call are the consumer and the lane,
-- then for each job the number of its values, and these: its entry, its life, and others. A job that fails keeps no
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
    local entry, life = ARGV[at + 1], ARGV[at + 2]
    local done, answer = pcall(one, held and held[entry] == true, entry, life, key, at + 3, last)
    if not done then answer = type(answer) == 'table' and answer.err or tostring(answer) end
    answers[nth] = answer
    if held then held[entry] = nil end
    key, at = key + keys_each, last + 1
  end
  return { 1, answers }
end

-- No entry has this id. Ending it has no effect but an error if the login may not end entries, which a script must know
-- before its first insert.
local NO_ENTRY = '0-0'

-- What is to be counted for the job that a script ends: the key of the task that replayed it, its life, and how it ended; see
-- conclude. It is counted once nothing can fail any more.
local to_count = {}

-- The field of a task which says that the task replayed this life, and that its end is not counted yet.
local function replayed_life(life)
  return 'l:' .. life
end

-- Counts how a job that a task replayed has ended. Any producer may copy the field that names a task, so only the lives that the
-- task knows count, each once. A task that is gone knows none.
local function count_end(campaign, life, how)
  if redis.pcall('HDEL', campaign, replayed_life(life)) == 1 then redis.pcall('HINCRBY', campaign, how, 1) end
end

-- The same with the only job that a script ends: the last thing that this script does.
local function count_last_end()
  if to_count.campaign then count_end(to_count.campaign, to_count.life, to_count.how) end
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
    if to_count.campaign then counts[#counts + 1] = { to_count.campaign, to_count.life, to_count.how } end
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

local function has_ended(state)
  return state == 'done' or state == 'dead' or state == 'cancelled'
end

-- What a record says, read once: each is false if it does not. is_known: whether it belongs to this life. extra, other: the
-- values of two more fields, if they are named.
local function facts_of(record, life, ...)
  local told = redis.call('HMGET', record, 'life', 'state', 'created_ms', 'noted', 'first_failed_ms', 'member', 'dead_id',
    'keep_until_ms', 'holds', ...)
  return { is_known = told[1] == life, life = told[1], state = told[2], created_ms = told[3], noted = told[4],
    first_failed_ms = told[5], member = told[6], dead_id = told[7], keep_until_ms = told[8], holds = told[9],
    extra = told[10], other = told[11] }
end

-- True if this life may write the job's record: the record already belongs to it, has no life, or belongs to a life
-- that has ended, whose traces are deleted then. If two lives of one id are alive at once, the first one owns the
-- record. Then what the record says about this life. facts: what it says, if it has been read.
local function owns(record, life, facts)
  facts = facts or facts_of(record, life)
  if not facts.life or facts.is_known then return true, facts end
  if not has_ended(facts.state) then return false, facts end
  redis.call('HDEL', record, 'life', 'error', 'result', 'cancelled_by', 'dead_id', 'first_failed_ms', 'progress', 'note',
    'progress_ms', 'due_ms', 'member', 'children')
  facts.first_failed_ms, facts.member, facts.dead_id = false, false, false
  return true, facts
end

-- Writes fields into the record of a life that owns it, and beside them what does not change during a life.
local function write_record(record, facts, job_type, lane, created_ms, life, ...)
  if facts.is_known and facts.created_ms == created_ms then return redis.call('HSET', record, ...) end
  redis.call('HSET', record, 'type', job_type, 'lane', lane, 'created_ms', created_ms, 'life', life, ...)
end

-- A record stays, whatever its retention, while a letter or a late success still needs it.
local function hold_record(record)
  redis.call('HINCRBY', record, 'holds', 1)
  redis.call('PERSIST', record)
end

-- Sets the TTL of the ledger of an id's steps, unless a life that has begun one of them is still alive.
local function expire_ledger(ledger, ms)
  local lives = redis.pcall('HGET', ledger, 'lives')
  if type(lives) == 'string' and (tonumber(lives) or 0) > 0 then return end
  redis.call('PEXPIRE', ledger, ms)
end

local function release_record(record, ledger)
  if redis.call('HINCRBY', record, 'holds', -1) > 0 then return end
  local told = redis.call('HMGET', record, 'expire_ms', 'state')
  if told[1] and (told[2] == 'done' or told[2] == 'cancelled') then
    redis.call('PEXPIRE', record, told[1])
    if ledger then expire_ledger(ledger, told[1]) end
  end
end

-- True if an attempt of this life succeeded after it had been given up, so that the entry being settled is a retry that
-- must not start. begin reads the same fields.
local function is_done(record, life)
  local late = redis.call('HMGET', record, 'late:' .. life, 'late')
  return late[1] or late[2] == life
end

-- The retry of a late success has arrived, so the record need not be kept for it any more.
local function meet_late(record, life)
  if redis.call('HDEL', record, 'late:' .. life) == 1 then release_record(record) end
end

-- True if this life has a record only because an attempt reported on itself (see report); the record goes with that
-- attempt. Records that are kept for a living job have no TTL.
local function is_passing(record, life)
  return redis.call('PTTL', record) >= 0 and redis.call('HGET', record, 'life') == life
end

-- The large fields of a job may be in a key of their own, named for the life that they were put there for. A name that
-- ends in a colon stands for no key.
local function is_offloaded(key)
  return string.byte(key, -1) ~= 58
end

-- The key stays while an entry names it, which a script has just written …
local function keep_offloaded(key)
  if is_offloaded(key) then redis.call('PERSIST', key) end
end

-- … after checking, before its first write, that the key exists …
local function must_be_offloaded(key)
  if not is_offloaded(key) or redis.call('EXISTS', key) == 1 then return end
  error('the key ' .. key .. ', which has the large fields of the job, is gone')
end

-- … goes at once if its job was not accepted, but not if it has no TTL: then an earlier call accepted this life …
local function forget_offloaded(key)
  if is_offloaded(key) then redis.call('PEXPIRE', key, 0, 'XX') end
end

-- … is kept for a while if its letter is gone, or a job with a copy of it has ended: somebody may have copied the letter, and only
-- the leader sees when no copy waits any more. It deletes the key then; see discard. If nobody does, Redis does so after a year,
-- or after a day if the login may not tell the leader. A time in the future says that a copy waits in the room of a value; only
-- the end of a job takes that back.
local function leave_to_copies(key, is_end_of_job)
  if redis.call('PEXPIRE', key, '31536000000') == 0 then return end
  local beside, token = string.match(key, '^(.-:)offloaded:(.*)$')
  local told = redis.pcall('ZADD', beside .. 'dead:offloaded', is_end_of_job and 'CH' or 'GT', ms_text(now_ms()), token)
  if type(told) == 'table' then redis.call('PEXPIRE', key, 86400000) end
end

-- … and ends with its life. The fields of an earlier life stay if the record says that a letter has them, and otherwise
-- for copies of that letter. record: nil if a letter ends.
local function drop_offloaded(key, life, record)
  if not is_offloaded(key) then return end
  local of = string.match(key, ':offloaded:(.*)%-%x+$')
  if not of then return end
  if of == life then return redis.call('UNLINK', key) end
  if not record or redis.pcall('HEXISTS', record, 'dead:' .. of) == 0 then return leave_to_copies(key, record) end
  local beside, token = string.match(key, '^(.-:)offloaded:(.*)$')
  redis.pcall('ZREM', beside .. 'dead:offloaded', token)
end

-- True if the cancellation of this life of the job was requested.
local function is_unwanted(cancels, life)
  return redis.call('ZSCORE', cancels, life)
end

-- The answer about a job that needs no settling: another process settled its entry, or an attempt of this life succeeded
-- after it had been given up, and its retry, a repeated attempt, is dropped. nil if the entry is ours to settle.
local function settled(script, stream, held, entry, receipts, record, life, offloaded, is_repeated)
  if not held then return answer_before(receipts, stream, entry, script) end
  if is_repeated == '0' or not is_done(record, life) then return end
  meet_late(record, life)
  drop_offloaded(offloaded, life, record)
  return 2, 'end'
end

-- Names in the record the letter that holds the end of this life, and what removing it takes: its group and its
-- fingerprint, as write_letter returns them, and the token of the key of its large fields. The letter itself may be large.
local function name_letter(record, letter, life, group, offloaded)
  local token = string.match(offloaded, ':offloaded:(.+)$') or ''
  redis.call('HSET', record, 'letter:' .. letter, life, 'dead:' .. life, letter, 'group:' .. letter, group .. ' ' .. token)
end

-- The same for a letter that is new to the record, which stays while it has letters.
local function mark_letter(record, letter, life, group, offloaded)
  name_letter(record, letter, life, group, offloaded)
  hold_record(record)
end

-- Removes a letter that is gone from the record.
local function unmark_letter(record, letter, ledger)
  local life = redis.call('HGET', record, 'letter:' .. letter)
  if not life then return end
  redis.call('HDEL', record, 'letter:' .. letter, 'group:' .. letter, 'dead:' .. life)
  release_record(record, ledger)
end

-- The most groups of dead letters that are counted apart. The letters of all other groups are counted as one, `other`.
local MOST_GROUPS = 10000

-- After this many ms without progress, a recount is abandoned: changes are no longer written to its table.
local RECOUNT_MS = 600000

-- The table that counts the groups of dead letters, and the one that a recount is filling, or nil. Both lie beside the
-- letters. Then the last letter that an earlier recount counted, the last one that this recount will count, and the last
-- one that it has counted; then the numbers of these two recounts. A recount fills another table, because letters come and go
-- while it runs; see recount.
local function group_tables(dead)
  local told = redis.pcall('HMGET', dead .. ':recount', 'table', 'counted', 'bound', 'cursor', 'touched_ms', 'done_nth', 'nth')
  if told.err then told = {} end
  local live, coming = dead .. ':groups', dead .. ':groups:2'
  if told[1] == '2' then live, coming = coming, live end
  local goes_on = told[3] and now_ms() - (tonumber(told[5] or '') or 0) < RECOUNT_MS
  return live, goes_on and coming or nil, told[2], told[3], told[4], tonumber(told[6] or ''), tonumber(told[7] or '')
end

-- The group in which a table counts a letter that names none: that of its fingerprint, or `other` if there are too many.
-- '' if the table cannot be read: then the letter is not counted.
local function group_for(groups, fingerprint)
  local known = redis.pcall('HEXISTS', groups, fingerprint)
  if type(known) == 'table' then return '' end
  return (known == 1 or redis.call('HLEN', groups) < MOST_GROUPS) and fingerprint or 'other'
end

-- Adds a letter to a group: 'count deaths first_ms last_ms letter type reason error'. The last letter and its error are
-- samples, unless a later one is known. deaths: 1, or 0 if it takes the place of another letter. It must come after the
-- first write of its script. A table of another type counts nothing.
local function add_to_group(groups, group, deaths, ms, letter, job_type, reason, error_text)
  local told = redis.pcall('HGET', groups, group)
  if type(told) == 'table' then return end
  local count, died, first, last, sample = string.match(told or '', '^(%d+) (%d+) (%d+) (%d+) (.*)$')
  local is_older = sample and ms < tonumber(last)
  first, last = math.min(tonumber(first) or ms, ms), math.max(tonumber(last) or ms, ms)
  if #error_text > 200 then error_text = string.gsub(string.sub(error_text, 1, 200), '[\192-\255][\128-\191]*$', '') end
  if group == 'other' or job_type == '' then job_type = '-' end
  if group == 'other' then reason = '-' end
  local counts = string.format('%.0f %.0f ', (tonumber(count) or 0) + 1, (tonumber(died) or 0) + deaths)
  if not is_older then sample = letter .. ' ' .. job_type .. ' ' .. reason .. ' ' .. error_text end
  redis.pcall('HSET', groups, group, counts .. ms_text(first) .. ' ' .. ms_text(last) .. ' ' .. sample)
end

-- Takes a letter out of a group. A group without letters is deleted.
local function take_from_group(groups, group, letter)
  local told = redis.pcall('HGET', groups, group)
  if type(told) ~= 'string' then return end
  local count, times, sample, rest = string.match(told, '^(%d+) (%d+ %d+ %d+) (%S+) (.*)$')
  if (tonumber(count) or 0) <= 1 then return redis.pcall('HDEL', groups, group) end
  if sample == letter then sample = '-' end
  redis.pcall('HSET', groups, group, string.format('%.0f ', count - 1) .. times .. ' ' .. sample .. ' ' .. rest)
end

-- True if an entry's id is not after another one. False if there is no other one.
local function is_up_to(id, last)
  local ms, nth = string.match(id, '^(%d+)-(%d+)$')
  local last_ms, last_nth = string.match(last or '', '^(%d+)-(%d+)$')
  if not last_ms then return false end
  ms, last_ms = tonumber(ms), tonumber(last_ms)
  return ms < last_ms or ms == last_ms and tonumber(nth) <= tonumber(last_nth)
end

-- A dead letter, as XRANGE returns it; nil if it is gone.
local function letter_at(dead, id)
  return redis.call('XRANGE', dead, id, id)[1]
end

-- The value of a letter's field; nil if it has none.
local function field_of(letter, name)
  for at = 1, #letter[2], 2 do
    if letter[2][at] == name then return letter[2][at + 1] end
  end
end

-- The list of the dead letters: each with its group and its fingerprint, as write_letter returns them, the id of its job or '',
-- and the number of the last recount that has counted it. Somebody may delete a letter by hand, and nothing else tells then what
-- it held; see gone.
local function list_of_letters(dead)
  return dead .. ':letters'
end

-- What the list says about a letter: its group, its fingerprint, the id of its job, and the number of a recount or 0; nil if it is
-- not in the list.
local function listed_letter(dead, letter)
  local told = redis.pcall('HGET', list_of_letters(dead), letter)
  local group, fingerprint, id, nth = string.match(type(told) == 'string' and told or '', '^(%w*):(%w*) (%S*) ?(%d*)$')
  return group, fingerprint, id, tonumber(nth or '') or 0
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
    redis.pcall('HSET', dead .. ':recount:gone', id, 1)
  end
end

-- Deletes a dead letter, and forgets it in its group and in the list. group, fingerprint: what its fields say, or ''. False if
-- the letter is gone. Nothing else deletes letters.
local function remove_letter_of(dead, id, group, fingerprint)
  if redis.call('XDEL', dead, id) == 0 then return false end
  redis.pcall('HDEL', list_of_letters(dead), id)
  uncount_letter(dead, id, group, fingerprint)
  return true
end

-- The same with a letter that has been read, as XRANGE returns it. Somebody may have written it by hand.
local function remove_letter(dead, letter)
  local function named(field)
    local name = field_of(letter, field) or ''
    return #name <= 64 and string.find(name, '^%w+$') and name or ''
  end
  return remove_letter_of(dead, letter[1], named('dead_group'), named('dead_fingerprint'))
end

-- A raw XADD of a dead letter's fields moves the letter; `life` and `at` identify it by those fields. own: the token of
-- the entry's large fields, or ''.
local function move_letter(dead, record, life, at, own)
  local letter = life ~= '' and redis.call('HGET', record, 'dead:' .. life)
  if not letter and at ~= '' then
    -- Letters of older versions do not name the life that ended in them.
    letter = redis.call('HGET', record, 'dead_id')
    local found = letter and letter_at(dead, letter)
    if not found or field_of(found, 'dead_at_ms') ~= at then return end
  end
  if not letter then return end
  local told = redis.call('HGET', record, 'group:' .. letter)
  local group, fingerprint, token = string.match(told or '', '^(%w*):(%w+) (%S*)$')
  if group then
    local is_listed, _, _, nth = listed_letter(dead, letter)
    -- Otherwise, somebody has deleted it by hand.
    if not remove_letter_of(dead, letter, group, fingerprint) and is_listed then
      redis.pcall('HDEL', list_of_letters(dead), letter)
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
    leave_to_copies(string.gsub(dead, 'dead$', 'offloaded:') .. token)
  end
  unmark_letter(record, letter)
end

-- The steps of an id that have begun, each with its name, its kind, and its state; then how many steps it has.
local function begun_steps(ledger)
  local plan, states, begun = {}, {}, {}
  for line in string.gmatch(redis.call('HGET', ledger, 'plan') or '', '[^\n]+') do
    local name, kind = string.match(line, '^(%S+) (%S+)')
    if name then plan[#plan + 1], states[#states + 1] = { name, kind }, name .. ':state' end
  end
  if not plan[1] then return begun, 0 end
  for nth, state in ipairs(redis.call('HMGET', ledger, unpack(states))) do
    if state and state ~= 'pending' then begun[#begun + 1] = { plan[nth][1], plan[nth][2], state } end
  end
  return begun, #plan
end

-- True if a `once` step of an id has begun. A letter may be one of many, and reading all 64 steps of each takes long.
local function has_begun_once(ledger)
  local states = {}
  for name in string.gmatch('\n' .. (redis.call('HGET', ledger, 'plan') or ''), '\n(%S+) once') do
    states[#states + 1] = name .. ':state'
  end
  for _, state in ipairs(states[1] and redis.call('HMGET', ledger, unpack(states)) or states) do
    if state and state ~= 'pending' then return true end
  end
  return false
end

-- Ends the record of a job one of whose letters is gone, with the ledger of its steps if one is named, unless another life uses
-- it. keep_ms: how long the ledger stays if somebody needs it. Copies of the letter say themselves which steps are done.
local function end_dead_record(record, ledger, letter, keep_ms)
  unmark_letter(record, letter, ledger)
  local told = redis.call('HMGET', record, 'state', 'dead_id', 'holds')
  local is_its = told[2] == letter or not told[2] and told[3]
  if told[1] ~= 'dead' or not is_its or tonumber(told[3] or '0') > 0 then
    if told[2] == letter then redis.call('HDEL', record, 'dead_id') end
    return
  end
  redis.call('DEL', record)
  if not ledger then return end
  -- Another life of this id may be on its way and must not repeat what is done, so such a ledger outlives the letter.
  local is_needed = tonumber(redis.call('HGET', ledger, 'lives') or '0') > 0 or has_begun_once(ledger)
  if is_needed then expire_ledger(ledger, keep_ms) else redis.call('DEL', ledger) end
end

-- True if a key is a hash or does not exist. Keys of other types are no record and no ledger, and stay as they are.
local function is_hash(key)
  return type(redis.pcall('HEXISTS', key, '')) == 'number'
end

-- The life that packed fields name, normally in their first field; nil if they name none.
local function life_of(pack)
  local head = string.byte(pack, 1)
  local at = head == 0xdc and 3 or head == 0xdd and 5 or 1
  local read, _, _, name, life = pcall(cmsgpack.unpack_limit, pack, 3, at)
  if read and name == 'life' then return life end
  local whole, fields = pcall(cmsgpack.unpack, pack)
  if not whole or type(fields) ~= 'table' then return nil end
  local created
  for field = 2, #fields, 2 do
    if fields[field] == 'life' then return fields[field + 1] end
    if fields[field] == 'created_ms' then created = fields[field + 1] end
  end
  return created
end

-- The key that packed fields name for the large ones; if they name none, a name that ends in a colon. It lies beside
-- the delayed set.
local function offloaded_by(pack, delayed)
  local whole, fields = pcall(cmsgpack.unpack, pack)
  local token = nil
  for at = 2, whole and type(fields) == 'table' and #fields or 0, 2 do
    if fields[at] == 'offloaded' then token = string.match(tostring(fields[at + 1]), '^(%S+) ') end
  end
  return string.gsub(delayed, 'delayed$', 'offloaded:') .. (token or '')
end

-- The name of this life in a table that has another life under the id itself. No other job has it as its id: an id has no
-- space.
local function second_name(id, life)
  return id .. ' ' .. (life or '')
end

-- The member of the delayed set that holds this life; nil if none does.
local function parked(delayed, packs, id, life)
  local own = second_name(id, life)
  if redis.call('ZSCORE', delayed, own) then return own end
  local pack = redis.call('ZSCORE', delayed, id) and redis.call('HGET', packs, id)
  if pack and life_of(pack) == life then return id end
end

-- Takes out a member of the delayed set, with its large fields: somebody may have edited it since it was read.
local function unpark(delayed, packs, member, life, record)
  drop_offloaded(offloaded_by(redis.call('HGET', packs, member) or '', delayed), life, record)
  redis.call('ZREM', delayed, member)
  redis.call('HDEL', packs, member)
end

-- The most names and values of one entry: half of what fits onto Lua's stack, and more than any worker accepts for a
-- job.
local MOST_VALUES = 4000

-- True if one entry can have this many names and values.
local function make_entry(count)
  return count >= 2 and count <= MOST_VALUES and count % 2 == 0
end

-- True if these values of a list unpacked by Lua are the names and values of one entry, flat.
local function is_flat(list, first, last)
  if not make_entry(last - first + 1) then return false end
  for at = first, last do
    local kind = type(list[at])
    if kind ~= 'string' and kind ~= 'number' then return false end
  end
  return true
end

-- Appends these texts of a list as one entry. Returns the entry's id or an error; never throws.
local function append(stream, list, first, last)
  if not make_entry(last - first + 1) then return { err = 'ERR these fields do not form an entry' } end
  return redis.pcall('XADD', stream, '*', unpack(list, first, last))
end

-- The same, but an error ends the script: for texts that were checked before its first write.
local function must_append(stream, list, first, last)
  if not make_entry(last - first + 1) then error('these fields do not form an entry') end
  return redis.call('XADD', stream, '*', unpack(list, first, last))
end

-- The answer to a producer if the names and values of its job cannot be an entry: an odd number, too few or too many.
local function refuse_fields(nth, values)
  return redis.error_reply(string.format('ERR job %d of this call has %d names and values: an entry has at most %d', nth, values,
    MOST_VALUES))
end

-- Reads packed fields; nil if they are not a lane and fields that an entry can have. The fleet packs only texts, so
-- numbers and other MessagePack types come from elsewhere.
local function unpacked(packed)
  local read, list = pcall(cmsgpack.unpack, packed)
  if read and type(list) == 'table' and type(list[1]) == 'string' and is_flat(list, 2, #list) then return list end
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
  redis.pcall('HSET', list_of_letters(dead), letter, named .. ' ' .. (string.match(record, ':job:(.*)$') or ''))
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
  local life, dead_id = unpack(redis.call('HMGET', record, 'letter:' .. old[1], 'dead_id'))
  local new, group = write_letter(dead, fields, fingerprint, 0, tonumber(ms), job_type, reason, error_text, record)
  if type(new) == 'table' then return new end
  if life then
    redis.call('HDEL', record, 'letter:' .. old[1], 'group:' .. old[1])
    name_letter(record, new, life, group, kept)
  end
  if dead_id == old[1] then redis.call('HSET', record, 'dead_id', new, 'type', job_type) end
  remove_letter(dead, old)
  return new
end

-- Notes what a person did in the audit, which keeps about the last 10,000 actions, once for each call. action: the fields
-- of the note, packed. A full Redis allows it. Returns the entry's id or an error; never throws.
local function note_action(audit, call, action)
  local before = redis.pcall('XREVRANGE', audit, '+', '-', 'COUNT', 20)
  if before.err then return before end
  for _, noted in ipairs(before) do
    if field_of(noted, 'call') == call then return noted[1] end
  end
  -- Redis allows this even when it is out of memory, and then admits the XADD.
  local trimmed = redis.pcall('XTRIM', audit, 'MAXLEN', '~', 10000)
  if type(trimmed) == 'table' then return trimmed end
  local fields = cmsgpack.unpack(action)
  add_pair(fields, 'call', call)
  return append(audit, fields, 1, #fields)
end

-- The same for scripts that have done it already. Returns '', or why it is not noted.
local function why_not_noted(audit, call, action)
  local noted = note_action(audit, call, action)
  return type(noted) == 'table' and noted.err or ''
end

-- Sets aside in the dead stream packed fields that cannot go to a lane. Returns the letter's id or an error; never throws.
local function set_aside(dead, packed, job, why, now)
  local fields = { 'raw', packed, 'dead_job', job, 'dead_reason', 'malformed', 'dead_error', why, 'dead_at_ms',
    string.format('%.0f', now) }
  local fingerprint = string.sub(redis.sha1hex('malformed ' .. why), 1, 16)
  local letter = write_letter(dead, fields, fingerprint, 1, now, '', 'malformed', why, '')
  return letter
end

-- The first of these lanes in which no entry waits for a worker, or whose group is missing; nil if there is none. What a
-- script appends to such a lane is all that a read in the same script returns.
local function idle_lane(lanes)
  for _, lane in ipairs(lanes) do
    local group = fleet_group(redis.pcall('XINFO', 'GROUPS', lane))
    if not group then return lane end
    -- A pending entry may have no body any more, so their numbers do not prove that nothing waits. The lag does, but for a
    -- while after an entry that waited was deleted, Redis does not know it. To read what waits may take long.
    local length = redis.call('XLEN', lane)
    if length == 0 or length <= group.pending and group.lag == 0 then return lane end
  end
end

-- What a field weighs beside its bytes: to read and write it takes as long as this many bytes do; see job/weight.rs.
local FIELD_WEIGHT = 64

-- What the flat fields of a job weigh. Jobs of equal weight take a script about the same time.
local function weigh(list)
  local bytes = 0
  for _, text in ipairs(list) do bytes = bytes + #text end
  return bytes + FIELD_WEIGHT * #list / 2
end

-- The most entries of a room that a script reads at once. Nobody knows how heavy they are, but those of a room have at most
-- about 128 KiB.
local MOST_AT_ONCE = 2

-- Calls `one` with the id and the flat fields of entries of a room, from its head: of at most `most`, and until they weigh
-- `most_weight` together, until it returns false.
local function each_in_room(room, most, most_weight, one)
  local from, left, sum = '-', most, 0
  while left > 0 and sum < most_weight do
    local count = math.min(left, MOST_AT_ONCE)
    local page = redis.call('XRANGE', room, from, '+', 'COUNT', count)
    for _, entry in ipairs(page) do
      sum, left = sum + weigh(entry[2]), left - 1
      if one(entry[1], entry[2]) == false or sum >= most_weight then return end
    end
    if #page < count then return end
    from = '(' .. page[#page][1]
  end
end

-- Forgets a room if it has no more jobs. Returns 1 if it has more, else 0.
local function has_more(room, rooms, asked, name)
  if redis.call('XLEN', room) > 0 then return 1 end
  redis.call('DEL', room)
  redis.call('HDEL', rooms, name)
  redis.call('HDEL', asked, name)
  return 0
end

-- The fields of a record that note an attempt which ended now in the ring of the last 20: 'start end outcome worker
-- error'. noted: the number of attempts noted before, or false.
local function attempt_fields(noted, now, elapsed, outcome, worker, error)
  local nth, slot = '1', 'a:0'
  if noted then
    local before = tonumber(noted) or 0
    nth, slot = string.format('%d', before + 1), string.format('a:%d', before % 20)
  end
  local times = ms_text(now - elapsed) .. ' ' .. ms_text(now)
  return 'noted', nth, slot, times .. ' ' .. outcome .. ' ' .. worker .. ' ' .. error
end

-- Puts packed fields that cannot be set aside now into the delayed set, which lies beside the lane: the promoter tries it when
-- they are due, again and again. Returns false if that is not possible either; never throws.
local function put_by(stream, member, packed, due_ms)
  local delayed = string.gsub(stream, 'jobs[:%a]*$', 'delayed')
  local packs = delayed .. ':fields'
  if type(redis.pcall('HSET', packs, member, packed)) == 'table' then return false end
  if type(redis.pcall('ZADD', delayed, due_ms, member)) ~= 'table' then return true end
  redis.pcall('HDEL', packs, member)
  return false
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
    -- No script that ends a member names this key, which lies beside the lane.
    local dead = string.gsub(stream, 'jobs[:%a]*$', 'dead')
    local name, now = string.match(batch, 'batch:(.*)$') or '', now_ms()
    local letter = set_aside(dead, packed, name, 'the job that follows a batch cannot be appended', now)
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
    local told = redis.call('HGET', batch, 'w:' .. id) or 'done'
    local other = string.match(told, '^>(.*)$')
    steps = steps - 1
    if not other then return id, told, steps end
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

-- The same for other batches that count this job's success for a member of theirs; see submit. batches: what the record
-- says about them, if anything.
local function tell_batches(batches, id, stream)
  for _, batch in ipairs(batches and cmsgpack.unpack(batches) or {}) do tell_batch(batch, id, stream) end
end

-- True if this key is a placeholder, which never exists: it ends with its kind.
local function is_placeholder(key)
  return string.find(key, '^[^}]*}:%a+:$') ~= nil
end

-- Notes in a job's record the ids of the jobs that followed its end. entries: those of the jobs, in this lane.
local function note_children(record, stream, entries)
  local lane = string.match(stream, 'jobs:(%a+)$')
  for at, entry in ipairs(entries) do entries[at] = lane and entry .. '-' .. lane or entry end
  redis.pcall('HSET', record, 'children', table.concat(entries, ' '))
end

-- Does what a job's end triggers: frees its lock, reports a success to its batch, and appends the jobs that follow.
-- `ends` is '' or a packed list: how it ended, the first life of its series of replays, then for each following job
-- 'once' or 'each', the number of its names and values together, and these. once: the job itself names it, and it follows
-- once for each way to end, however often the job is replayed. each: its type names it, and it follows each end; a life
-- ends once. If a gate let the job pass into another lane, how it ended is followed by its own lane; if it names a campaign,
-- then by the campaign, its life and what the campaign counts, which are left in to_count. It must come after the first
-- write of its script. A lock belongs to the life that owns the record. batches: what that record says, for a success; other
-- batches may wait for any job.
local function conclude(ends, id, record, stream, lock, batch, is_owner, batches)
  if not is_owner then batches = nil end
  if ends == '' then return batches and tell_batches(batches, id, stream) end
  local list, words = cmsgpack.unpack(ends), {}
  for word in string.gmatch(list[1], '%S+') do words[#words + 1] = word end
  local how, home = words[1], (#words == 2 or #words == 5) and words[2]
  if home then
    local own = string.gsub(stream, 'jobs[:%a]*$', home == 'normal' and 'jobs' or 'jobs:' .. home)
    -- If its own lane is of another type, what follows the job goes where the job was, and the job ends all the same.
    if type(redis.pcall('XLEN', own)) == 'number' then stream = own end
  end
  if words[4] then
    to_count.campaign = string.gsub(stream, 'jobs[:%a]*$', 'campaign:') .. words[#words - 2]
    to_count.life, to_count.how = words[#words - 1], words[#words]
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

-- The fraction of a score of the delayed set. It orders jobs that are due in the same millisecond.
local function rank_of(score)
  score = tonumber(score)
  return math.abs(score) < 2 ^ 53 and score % 1 or 0
end

-- Notifies the promoter, which blocks on this list, if the head of the delayed set is one of these members, which are
-- new there. If that fails, the promoter only learns of it later: what was written before is not written again.
local function nudge(delayed, wake, members)
  if members[redis.call('ZRANGE', delayed, 0, 0)[1] or ''] then
    redis.pcall('LPUSH', wake, 1)
    redis.pcall('LTRIM', wake, 0, 0)
    redis.pcall('PEXPIRE', wake, 5000)
  end
end

-- The answer that a call already got, if it is resent because that answer was lost.
local function receipt_of(receipt)
  local given = redis.call('GET', receipt)
  return given and cmsgpack.unpack(given)
end

-- Keeps the answer for longer than anybody resends one call. It must come after the first write of its script.
local function keep_receipt(receipt, answer)
  redis.call('SET', receipt, cmsgpack.pack(answer), 'PX', 40000)
end

-- True if a task that changes many jobs still works on this page; only then may a script change jobs for it. task: its key, or nil
-- or a placeholder if no task asks.
local function is_on_page(task, page)
  if not task or is_placeholder(task) then return true end
  local told = redis.call('HMGET', task, 'state', 'page')
  return told[1] == 'running' and told[2] == page
end

-- Counts jobs that a script has changed for a task, as jobs that it has looked at, too, and notes when its rate allows the next one.
-- If the clock was set back, that need not be waited for. It must come after the first write of its script; never throws.
local function count_for_task(task, what, jobs, now)
  if jobs == 0 or not task or is_placeholder(task) then return end
  redis.pcall('HINCRBY', task, what, jobs)
  redis.pcall('HINCRBY', task, 'looked', jobs)
  local told = redis.pcall('HMGET', task, 'step_ms', 'due_ms')
  local step_ms = tonumber(told[1] or '')
  if not step_ms then return end
  local due = math.min(math.max(tonumber(told[2] or '') or now, now - 1000), now + math.max(step_ms, 1000))
  redis.pcall('HSET', task, 'due_ms', string.format('%.3f', due + jobs * step_ms))
end

-- Packed fields of a job with the one that names the task that last moved it or made it due; see bulk/fence.rs. nil if it cannot be
-- added: a worker would refuse one more, they are not only texts, or some of them are elsewhere, and their number is known.
local function with_mark(packed, mark)
  local list = #packed <= 262144 and unpacked(packed)
  if not list or #list > 1999 then return nil end
  local at, is_light = nil, false
  for nth = 2, #list, 2 do
    if list[nth] == 'by_task' then at = nth end
    is_light = is_light or list[nth] == 'offloaded'
  end
  if is_light and (not at or #tostring(list[at + 1]) ~= #mark) then return nil end
  at = at or #list + 1
  list[at], list[at + 1] = 'by_task', mark
  for _, value in ipairs(list) do
    if type(value) ~= 'string' then return nil end
  end
  return cmsgpack.pack(list)
end

-- Leaves a note about a job that was cancelled while no worker held it, for which the leader emits the event. At most a
-- thousand notes are kept, and none for longer than a minute: events may be lost.
local function leave_word(endings, id, job_type, why)
  redis.pcall('RPUSH', endings, id .. ' ' .. (job_type == '' and '-' or job_type) .. ' ' .. why)
  redis.pcall('LTRIM', endings, -1000, -1)
  redis.pcall('PEXPIRE', endings, 60000)
end

-- The most jobs that may wait, run and be due later: the fleet's agreed limit or the producer's own, whichever is
-- lower.
local function depth_limit(control, own)
  local limit, agreed = tonumber(own), tonumber(redis.call('HGET', control, 'max_depth') or '')
  if limit and agreed then return math.min(limit, agreed) end
  return limit or agreed
end

-- How many jobs of a queue wait, run and are due later.
local function depth_of(delayed, high, normal, low)
  -- Jobs in rooms wait, too. A login that may not count them, as older ones, is not refused for that.
  local in_rooms = redis.pcall('HLEN', (string.gsub(delayed, 'delayed$', 'rooms:places')))
  return redis.call('ZCARD', delayed) + redis.call('XLEN', high) + redis.call('XLEN', normal) + redis.call('XLEN', low)
    + (type(in_rooms) == 'number' and in_rooms or 0)
end

-- The answer to a producer if `more` further jobs do not fit; nil if they do.
local function overfull(limit, more, ...)
  local depth = depth_of(...)
  if depth + more > limit then return { -1, depth, limit } end
end

-- The state of the job with this id as its producer sees it, and its member of the delayed set if it is in there; nil if
-- there is no such job. told: what the record says about state and member. A delayed job may have no record; is_empty: true
-- if there is no such job. A job in the delayed set without a due time would never be due.
local function standing_of(told, id, delayed, is_empty)
  local state, member = told[1], told[2] or id
  if state and state ~= 'scheduled' and state ~= 'retrying' then return state end
  if not state and is_empty then return nil end
  if redis.call('ZSCORE', delayed, member) then return state or 'scheduled', member end
  -- It was due, and is back in its lane.
  return state and 'waiting'
end

-- True if a job in this state is entitled to the lock of a key. own, scope: the key that its record names, and for how long it
-- holds the lock.
local function is_entitled(own, scope, key, state)
  if own ~= key then return false end
  if scope == 'window' then return state ~= 'dead' and state ~= 'cancelled' end
  if scope == 'waiting' and state ~= 'waiting' and state ~= 'scheduled' then return false end
  return not has_ended(state)
end

-- The state of a job that is known to be in this state, as its producer sees it. The record of a job may say 'waiting'
-- until its first attempt ends: then its entry shows whether it runs.
local function shown_state(state, record, lanes)
  local told = state == 'waiting' and redis.call('HMGET', record, 'lane', 'entry')
  local stream = told and told[2] and lanes[told[1]]
  return stream and pending_of(stream, told[2]) and 'running' or state
end

-- How long the record of a job that ended is kept: no shorter than its producer may resend its id. facts: what the record says.
local function kept_for(now, retention, facts)
  if not facts.keep_until_ms then return retention end
  local keep = tonumber(facts.keep_until_ms)
  -- Never longer than requested, even if the clock was ahead when the job was accepted.
  local least = math.min(keep - now, keep - tonumber(facts.created_ms or '0'))
  return string.format('%.0f', math.max(tonumber(retention), least))
end

-- Sets the TTL of the record of a job that ended, and of the ledger of its steps, if one is named.
local function expire(record, now, retention, ledger, facts)
  local left = kept_for(now, retention, facts)
  if tonumber(facts.holds or '0') > 0 then
    redis.call('HSET', record, 'expire_ms', left)
    redis.call('PERSIST', record)
    return
  end
  redis.call('PEXPIRE', record, left)
  if ledger then expire_ledger(ledger, left) end
end

-- A life that has begun steps, and so uses their ledger, has ended; see step_begin. Returns whether it was such a life.
local function leave_ledger(ledger, life)
  local has_begun = redis.pcall('HDEL', ledger, '@' .. life) == 1
  if has_begun then redis.call('HINCRBY', ledger, 'lives', -1) end
  return has_begun
end

-- Sets the TTL of everything kept about a life that ended. ledger: nil if it is known that there is none.
local function retire(record, ledger, life, is_owner, now, retention, facts)
  if ledger and not leave_ledger(ledger, life) and redis.call('EXISTS', ledger) == 0 then ledger = nil end
  if is_owner then return expire(record, now, retention, ledger, facts) end
  if not ledger then return end
  local told = redis.call('HMGET', record, 'state', 'holds')
  if (not told[1] or has_ended(told[1])) and tonumber(told[2] or '0') <= 0 then expire_ledger(ledger, retention) end
end

-- Notes an error of a step in its ring of the last 5: 'ms kind text'.
local function note_step(ledger, step, now, kind, text)
  local nth = redis.call('HINCRBY', ledger, step .. ':noted', 1)
  redis.call('HSET', ledger, step .. ':e:' .. (nth - 1) % 5, string.format('%.0f ', now) .. kind .. ' ' .. text)
end

-- True if the attempt that began this run of a step still has its entry, in whatever lane. The run's name begins with the
-- entry. stream: one of the lanes.
local function is_under_way(stream, run)
  local entry, normal = string.match(run or '', '^(%d+%-%d+)/'), string.match(stream, '^(.*:jobs)')
  if not entry or not normal then return false end
  return pending_of(normal, entry) or pending_of(normal .. ':high', entry) or pending_of(normal .. ':low', entry)
end

-- True if the runs of a step in another life count in this one: the other life is alive, or was so when this one joined the
-- ledger. A life joins at a version of the ledger, and a run ends at one.
local function shares_attempts(ledger, step, other, life)
  local told = redis.call('HMGET', ledger, '@' .. other, '@' .. life, step .. ':v')
  local joined, ended = tonumber(told[2] or ''), tonumber(told[3] or '')
  return told[1] or joined and ended and joined < ended
end

-- May this run of a step start? The answer is that of step_begin. told: the step's state, run, life and due time in the
-- ledger. Adds to `changes` what must be written, and adds nothing if nothing changes. It must come after the fence.
local function begin_step(stream, ledger, told, step, kind, run, life, consumer, now, changes)
  local state, is_others = told[1] or 'pending', told[3] and told[3] ~= life
  if state == 'started' and told[2] == run then return 1 end
  if state == 'done' or state == 'given_up' then return 2 end
  -- This run has ended, and was sent to begin before that.
  if told[2] == run then return 0 end
  if state == 'started' and is_others and is_under_way(stream, told[2]) then return 4 end
  if kind == 'once' and state == 'started' then
    add_pair(changes, step .. ':state', 'unknown')
    add_pair(changes, step .. ':since', ms_text(now))
    redis.call('HINCRBY', ledger, step .. ':attempts', 1)
    note_step(ledger, step, now, 'lost',
      'no word from ' .. (redis.call('HGET', ledger, step .. ':worker') or '-') .. ', which had started it')
    return 3
  end
  if kind == 'once' and state ~= 'pending' then return 2 end
  if kind == 'auto' and is_others and not shares_attempts(ledger, step, told[3], life) then
    add_pair(changes, step .. ':attempts', '0')
  end
  add_pair(changes, step .. ':state', 'started')
  add_pair(changes, step .. ':run', run)
  add_pair(changes, step .. ':worker', consumer)
  add_pair(changes, step .. ':since', ms_text(now))
  add_pair(changes, step .. ':life', life)
  if told[4] then redis.call('HDEL', ledger, step .. ':due') end
  return 1
end

-- Fails if Redis is full, or if the login may not delete letters. Changes nothing. SETRANGE is a write that a full Redis
-- refuses, and it creates no key for no bytes; XDEL is not refused.
local function must_end_letters(dead)
  local never = string.gsub(dead, 'dead$', 'unique:')
  redis.call('SETRANGE', never, 0, '')
  redis.call('XDEL', dead, NO_ENTRY)
end

-- Moves a dead letter back to its original lane, as a new life with the old fields and id. Fields that would bury the
-- job at once are dropped: a replayed job is meant to run, even after its expiry. The record of its steps moves with
-- it, unless they are all to run again. campaign: what the job says about the campaign that replays it, or nil. Returns
-- the new entry's id and the new life.
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
      redis.call('PERSIST', string.gsub(dead, 'dead$', 'offloaded:') .. (string.match(value, '^(%S+) ') or ''))
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
  local life = entry .. (lane == 'normal' and '' or '-' .. lane)
  if owner[2] and (not owner[1] or owner[1] == former or has_ended(owner[2])) then
    redis.call('HSET', record, 'state', 'waiting', 'entry', entry, 'lane', lane, 'created_ms',
      string.match(entry, '^%d+'), 'life', life)
    redis.call('HDEL', record, 'dead_id', 'late', 'first_failed_ms', 'member', 'children')
    redis.call('PERSIST', record)
  end
  remove_letter(dead, letter)
  unmark_letter(record, letter[1])
  return entry, life
end

-- A key of a gate's state; it lies beside `gates`, the rules. kind: rate, held, unstarted, breaker, claim or room.
local function gate_key(gates, kind, name)
  return string.sub(gates, 1, -6) .. kind .. ':' .. name
end

-- Names in the record of this life the entry where its job is now, and other fields. Never throws.
local function name_entry(gates, id, life, ...)
  if not id or not life then return end
  local record = gate_key(gates, 'job', id)
  if redis.pcall('HGET', record, 'life') == life then redis.pcall('HSET', record, 'entry', ...) end
end

-- A gate as one call sees it: whether it is closed, and its limits. Those that were set at run time replace those of the
-- configuration, and those of one value of a field replace those for each value. A gate whose rule cannot be read is closed.
local function gate_of(gates, name, now)
  local gate, limits = { gates = gates, name = name, held = gate_key(gates, 'held', name), closed = false }, nil
  for _, named in ipairs({ name, (string.match(name, '^(key:[^=]+)=')) }) do
    local told = redis.call('HMGET', gates, 'p:' .. named, 'r:' .. named, 'c:' .. named)
    if told[1] then
      local till = tonumber(string.match(told[1], '^%d+ (%d+) ') or '0')
      if till == 0 or till > now then gate.closed = true end
    end
    limits = limits or told[2] or told[3]
  end
  local read = not limits or pcall(function()
    local told = cjson.decode(limits)
    gate.concurrency = told.concurrency and told.concurrency + 0
    gate.interval = told.rate and told.rate.per_ms / told.rate.n
    gate.burst = told.rate and told.rate.burst + 0
    if told.rate and not (gate.interval > 0 and gate.interval < 1e9 and gate.burst >= 1) then error('no rate') end
    local breaker = told.breaker
    if breaker then
      gate.breaker = { key = gate_key(gates, 'breaker', name), ratio = breaker.ratio + 0, min = breaker.min + 0,
        window = breaker.window_ms + 0, cooldown = breaker.cooldown_ms + 0 }
    end
  end)
  if not read then gate.closed = true end
  gate.rate = gate.interval and gate_key(gates, 'rate', name)
  gate.limits = gate.concurrency or gate.interval or gate.breaker
  return gate
end

-- True if a value can be part of the name of a room: at most 128 bytes of UTF-8 without control characters. Lua knows only
-- bytes.
local function is_value(value)
  if #value > 128 or string.find(value, '%c') then return false end
  if not string.find(value, '[\128-\255]') then return true end
  for _, wrong in ipairs({ '\194[\128-\159]', '\224[\128-\159]', '\237[\160-\191]', '\240[\128-\143]', '\244[\144-\191]' }) do
    if string.find(value, wrong) then return false end
  end
  local rest = string.gsub(value, '[\240-\244][\128-\191][\128-\191][\128-\191]', 'x')
  rest = string.gsub(rest, '[\224-\239][\128-\191][\128-\191]', 'x')
  rest = string.gsub(rest, '[\194-\223][\128-\191]', 'x')
  return not string.find(rest, '[\128-\255]')
end

-- How many entries that hold places, or their places in rooms, one script may still check. Lua copies those that are in a room,
-- so one that is large or has many fields counts as several.
local checks_left = 96

-- True if this entry is pending, or waits to be read.
local function is_alive(stream, entry)
  return pending_of(stream, entry) ~= nil or is_unread(stream, entry)
end

-- The name of the room that this stream is; nil if it is a lane.
local function room_name(stream)
  return string.match(stream, '^[^}]*}:room:(.+)$')
end

-- Notes where a job waits: the table of places has its entry and its room under its id. If another job of this id waits in a
-- room, that one gets a name of its own, by its life. It must come after the first write of its script. Never throws.
local function note_place(places, id, life, entry, room)
  local spot = entry .. ' ' .. room
  if redis.pcall('HSETNX', places, id, spot) ~= 0 then return end
  local before = redis.pcall('HGET', places, id)
  local other, other_room = string.match(type(before) == 'string' and before or '', '^(%d+%-%d+) (.+)$')
  if other then
    local stream = string.gsub(places, 's:places$', ':') .. other_room
    local found = checks_left > 0 and redis.pcall('XRANGE', stream, other, other) or { err = 'not checked' }
    local other_life = found[1] and field_of(found[1], 'life')
    if found[1] then checks_left = checks_left - 1 - math.floor(weigh(found[1][2]) / 8192) end
    if other_life then
      redis.pcall('HSET', places, second_name(id, other_life), before)
    elseif found[1] or found.err then
      -- Nobody can tell whose place it is.
      id = second_name(id, life)
    end
  end
  redis.pcall('HSET', places, id, spot)
end

-- Forgets where a job waited, which has left this entry of a room. Never throws.
local function forget_place(places, id, life, entry, room)
  local is_first = redis.pcall('HGET', places, id) == entry .. ' ' .. room
  redis.pcall('HDEL', places, is_first and id or second_name(id, life))
end

-- How long the end of an entry is waited for that is gone but holds a place: the worker reports it a moment after the job's end.
local GONE_MS = 2000

-- Forgets those of some entries that hold a place in a gate, but have ended: their processes died before they gave it
-- back. An entry that is not pending is waiting to be read, or has ended. With `now`, one that is gone is noted in place of
-- the time of its start, and forgotten once it has been gone for GONE_MS. Returns how many were forgotten.
local function forget_ended(held, most, lanes, now)
  local forgotten = 0
  most = math.min(most, checks_left)
  if most <= 0 then return forgotten end
  checks_left = checks_left - most
  for _, member in ipairs(redis.call('HRANDFIELD', held, most)) do
    local lane, entry = string.match(member, '^(%a+) (%d+%-%d+)$')
    local stream = lane and lanes[lane]
    if not stream or not is_alive(stream, entry) then
      local gone = now and tonumber(string.match(redis.call('HGET', held, member), '^gone (%d+)$'))
      if not now or gone and now - gone >= GONE_MS then
        forgotten = forgotten + redis.call('HDEL', held, member)
      elseif not gone or gone > now then
        redis.call('HSET', held, member, 'gone ' .. ms_text(now))
      end
    end
  end
  return forgotten
end

-- How long a job claims places at most.
local CLAIM_MS = 30000

-- The job that claims the next place of a gate; nil if none does. Nobody claims one for longer than CLAIM_MS, so if more is
-- left, the server's clock was set back.
local function claim_of(gates, name)
  local key = gate_key(gates, 'claim', name)
  local claim = redis.pcall('GET', key)
  if type(claim) ~= 'string' then return nil end
  if redis.call('PTTL', key) > CLAIM_MS then redis.call('PEXPIRE', key, CLAIM_MS) end
  return claim
end

-- The same gate, with the number of its places that are taken and with the job that claims the next one, if any. A script
-- opens a gate once, after it has given back places, and takes others by pass_gate. Nobody gives back the place of an entry
-- that ended with its process, so a few of those that are taken are checked, and more if all are. If the places cannot be
-- read, this fails, before a job is anywhere else: whatever bounds a gate, its jobs take places.
local function open_gate(gates, name, lanes, now)
  local gate = gate_of(gates, name, now)
  gate.lanes = lanes
  if gate.limits then
    local held = redis.call('HLEN', gate.held)
    local is_full = gate.concurrency and held >= gate.concurrency
    -- A breaker counts the ends of those that hold a place, which may be given back a moment after the job's end.
    local is_patient = gate.breaker and not is_full and held < 1000
    gate.taken = held - forget_ended(gate.held, is_full and 4 or 1, lanes, is_patient and now or nil)
    gate.claim = claim_of(gates, name)
  end
  return gate
end

-- True while a job is tried. If its process died, or if somebody cancelled or moved it, nobody gives its place back, and another
-- job is tried after GONE_MS.
local function is_trying(gate, trial, now)
  if gate.is_trying then return true end
  if redis.call('HEXISTS', gate.held, trial) == 0 then return false end
  local lane, entry = string.match(trial, '^(%a+) (%d+%-%d+)$')
  local stream = lane and gate.lanes[lane]
  gate.is_trying = true
  if stream and is_alive(stream, entry) then return true end
  local gone = tonumber(redis.call('HGET', gate.breaker.key, 'gone_ms') or '')
  if not gone or gone > now then
    redis.call('HSET', gate.breaker.key, 'gone_ms', ms_text(now))
    return true
  end
  if now - gone < GONE_MS then return true end
  gate.is_trying = false
  gate.taken = gate.taken - redis.call('HDEL', gate.held, trial)
  return false
end

-- Whether a breaker is open: false if not, otherwise the ms for which it stays so, or -1 while another job is tried. It is
-- open for no longer than its cooldown, even if the clock was ahead when it opened.
local function is_tripped(gate, now)
  local told = redis.call('HMGET', gate.breaker.key, 'until_ms', 'probe', 'cooldown_ms')
  if not told[1] then return false end
  local rest, cooldown = tonumber(told[1]) - now, tonumber(told[3] or '') or gate.breaker.cooldown
  if rest > cooldown then
    rest = cooldown
    redis.call('HSET', gate.breaker.key, 'until_ms', ms_text(now + cooldown))
  end
  if rest > 0 then return rest end
  if told[2] and is_trying(gate, told[2], now) then return -1 end
  gate.tries = true
  return false
end

-- Whether a gate refuses that one more job starts now: false if not, otherwise the ms after which to ask again, or -1 if
-- nobody knows. Of a rate, one time is kept: when the next job starts if all start at even intervals. It may be ahead of
-- the clock by the burst, and is further ahead only if the clock went back or the rate was raised: then the burst is used
-- up but for one job. If nobody asked in time, up to a quarter of a second is made up for.
-- claim: that of the job itself. All others leave one place free for the job that claims it.
local function is_refused(gate, now, claim)
  if gate.closed then return -1 end
  local spare = gate.claim and gate.claim ~= claim and 1 or 0
  if gate.concurrency and gate.taken + spare >= gate.concurrency then return -1 end
  if gate.interval then
    local kept = tonumber(redis.call('GET', gate.rate) or '') or 0
    local ahead = gate.burst * gate.interval
    local slack = kept > 0 and math.min(gate.interval, 250) or 0
    -- What is kept is rounded.
    if kept > now + ahead + 1 then kept = now + ahead - gate.interval end
    gate.next = math.max(kept, now - slack)
    local early = gate.next - now - ahead + gate.interval * (1 + spare)
    if early > 0 then return math.ceil(early) end
  end
  return gate.breaker and is_tripped(gate, now)
end

-- The places of a value's gate are forgotten if no job has started there for 30 days. If a process dies just before it gives a place
-- back, nobody else looks at the places of a value that no other job has.
local function keep_held(gate)
  if string.sub(gate.name, 1, 4) == 'key:' then redis.call('PEXPIRE', gate.held, '2592000000') end
end

-- Makes an entry the one that is tried after a cooldown.
local function try_with(gate, member)
  redis.call('HSET', gate.breaker.key, 'probe', member)
  redis.call('HDEL', gate.breaker.key, 'gone_ms')
  gate.tries, gate.is_trying = false, true
end

-- Lets an entry, named by its lane and its id, pass a gate that does not refuse it. It holds its place until it ends.
local function pass_gate(gate, member, now)
  if not gate.limits or redis.call('HSETNX', gate.held, member, ms_text(now)) == 0 then return end
  gate.taken = gate.taken + 1
  keep_held(gate)
  if gate.interval then
    local next = gate.next + gate.interval
    redis.call('SET', gate.rate, string.format('%.3f', next), 'PX', math.ceil(math.max(next - now, 0)) + 1000)
  end
  if gate.breaker and gate.tries then try_with(gate, member) end
end

-- True if this entry must not start, though a room let it out and it holds its place: the gate was closed or its breaker opened
-- since.
local function is_stopped(gate, member, now)
  if gate.closed then return true end
  if not gate.breaker or redis.call('HGET', gate.breaker.key, 'probe') == member then return false end
  return is_tripped(gate, now) ~= false
end

-- The jobs that a room of a gate with a rate has let out are in a hash until they start. While no worker reads them, a rate
-- lets out no more of them than start at once later: those of half a second, or its burst. True if it may let out no more.
-- Those that a worker has read, and those that somebody has cancelled or moved, do not count.
local function is_ahead(gate)
  if not gate.interval then return false end
  local key, most = gate_key(gate.gates, 'unstarted', gate.name), math.max(gate.burst, math.ceil(500 / gate.interval))
  local count = redis.call('HLEN', key)
  if count < most then return false end
  for _, member in ipairs(redis.call('HRANDFIELD', key, 4)) do
    local lane, entry = string.match(member, '^(%a+) (%d+%-%d+)$')
    local stream = lane and gate.lanes[lane]
    local waits = stream and not pending_of(stream, entry) and (checks_left < 1 or is_unread(stream, entry))
    checks_left = checks_left - 1
    if not waits then count = count - redis.call('HDEL', key, member) end
  end
  return count >= most
end

-- Notes that an entry which passed a gate has left its room but not started, for a day at most.
local function note_unstarted(gate, member)
  if not gate.interval then return end
  local key = gate_key(gate.gates, 'unstarted', gate.name)
  redis.call('HSET', key, member, 1)
  redis.call('PEXPIRE', key, 86400000)
end

-- Notes that it has started, or gives back its place.
local function forget_unstarted(gate, member)
  if gate.interval then redis.call('HDEL', gate_key(gate.gates, 'unstarted', gate.name), member) end
end

-- Lets a job claim the next place of each of its gates, unless another job does so for one of them, or one of them is shut.
-- Each of two full gates refuses a job while the other one has a place for it: without a claim, none of them would ever let
-- it pass. Until it has passed, or for CLAIM_MS at most, others leave a place free. All claims of a job are made at once, so
-- no two jobs wait for each other.
local function claim_places(gates, mine, entry, room, now)
  local names = {}
  for _, gate in ipairs(mine) do
    if gate.closed or gate.claim or gate.breaker and is_tripped(gate, now) then return end
    if gate.limits then names[#names + 1] = gate.name end
  end
  local claim = entry .. '\n' .. room .. '\n' .. table.concat(names, '\n')
  for _, gate in ipairs(mine) do
    if gate.limits then
      redis.call('SET', gate_key(gates, 'claim', gate.name), claim, 'PX', CLAIM_MS)
      gate.claim = claim
    end
  end
end

-- Opens a breaker for `cooldown` ms.
local function trip(breaker, cooldown, now)
  redis.call('DEL', breaker.key)
  redis.call('HSET', breaker.key, 'until_ms', ms_text(now + cooldown), 'cooldown_ms', ms_text(cooldown))
  -- An hour without any job is long enough to forget the failures.
  redis.call('PEXPIRE', breaker.key, cooldown + 3600000)
end

-- Notes for a gate's breaker how an attempt ended: 'ok', 'failed', or anything else if it says nothing. Ends are counted in
-- windows, of which the last two count.
local function note_end(gate, member, how, now)
  local breaker = gate.breaker
  local told = redis.call('HMGET', breaker.key, 'until_ms', 'probe', 'cooldown_ms', 'window', 'ends', 'failed', 'old_ends',
    'old_failed')
  if told[1] then
    -- Jobs that started before it opened say nothing.
    if told[2] ~= member then return end
    if how == 'ok' then
      redis.call('DEL', breaker.key)
    elseif how == 'failed' then
      trip(breaker, math.min(2 * tonumber(told[3] or breaker.cooldown), 64 * breaker.cooldown), now)
    else
      redis.call('HDEL', breaker.key, 'probe')
    end
    return
  end
  if how ~= 'ok' and how ~= 'failed' then return end
  local window, known = math.floor(now / breaker.window), tonumber(told[4] or '-1')
  local ends, failed, old_ends, old_failed = tonumber(told[5] or 0), tonumber(told[6] or 0), tonumber(told[7] or 0),
    tonumber(told[8] or 0)
  if known ~= window then
    if known == window - 1 then old_ends, old_failed = ends, failed else old_ends, old_failed = 0, 0 end
    ends, failed = 0, 0
  end
  ends, failed = ends + 1, failed + (how == 'failed' and 1 or 0)
  local all, bad = ends + old_ends, failed + old_failed
  if how == 'failed' and all >= breaker.min and bad / all >= breaker.ratio then
    return trip(breaker, breaker.cooldown, now)
  end
  redis.call('HSET', breaker.key, 'window', window, 'ends', ends, 'failed', failed, 'old_ends', old_ends, 'old_failed', old_failed)
  redis.call('PEXPIRE', breaker.key, 2 * breaker.window)
end

-- The keys that could not be read, by their numbers, each with its error; see ask.
local unread = {}

-- The reply of a command about the key of this number; nil if that key cannot be read, which affects only its own
-- figures.
local function ask(nth, ...)
  local told = redis.pcall(...)
  if type(told) ~= 'table' or not told.err then return told end
  -- With this error XINFO reports that the stream or group does not exist.
  if unread[#unread - 1] ~= nth and not string.find(told.err, 'no such key', 1, true) then
    unread[#unread + 1] = nth
    unread[#unread + 1] = told.err
  end
end

-- The reply of XINFO about the fleet's group in the stream of this number; nil if there is none.
local function group_of(nth)
  return fleet_group(ask(nth, 'XINFO', 'GROUPS', KEYS[nth]) or {})
end
