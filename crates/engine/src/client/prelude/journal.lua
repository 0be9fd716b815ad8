-- journal: the stream of the jobs that ended, from which a process writes the history of a queue to a database. A queue has one while its
-- control hash says how many bytes it may have, and of which jobs it has the fields: 'none', 'failed' or 'all'.

-- What the control hash says about the journal, once it has been asked: room, fields. false if the queue has none.
local journal_terms = nil

local function journal_of(key)
  if journal_terms == nil then
    local reply = redis.pcall('HMGET', control_key(key), 'journal_max', 'journal_fields', 'journal_bytes')
    local most = not reply.err and tonumber(reply[1] or '')
    journal_terms = most and { room = most - (tonumber(reply[3] or '') or 0), fields = reply[2] or 'none' } or false
  end
  return journal_terms
end

-- The attempts of the generation that owns this record, packed. before: how many were noted before the last one, or false.
local function noted_attempts(record, before)
  local names = {}
  for nth = 0, math.min(tonumber(before or '') or 0, 19) do names[#names + 1] = 'a:' .. nth end
  local noted = redis.call('HMGET', record, unpack(names))
  local attempts = {}
  for _, attempt in ipairs(noted) do
    if attempt then attempts[#attempts + 1] = attempt end
  end
  return cmsgpack.pack(attempts)
end

-- True if the journal gets the fields of a job that ended, which failed for good or not.
local function needs_fields(key, failed)
  local terms = journal_of(key)
  return terms and (terms.fields == 'all' or terms.fields == 'failed' and failed)
end

-- Appends the end of a generation to the journal, if the queue has one. end_facts: flat names and values. fields: its fields, packed, or ''
-- if the journal does not get them. What the journal has no room for, or what Redis refuses, keeps no job from ending: it is counted, and the
-- history lacks it. It must come after the first write of its script; never throws.
local function write_end(key, end_facts, fields)
  local terms = journal_of(key)
  if not terms then return end
  if fields ~= '' then add_pair(end_facts, 'fields', fields) end
  local weight = weigh(end_facts)
  local appended = weight <= terms.room and redis.pcall('XADD', journal_key(key), '*', unpack(end_facts))
  local control = control_key(key)
  if type(appended) == 'string' then
    terms.room = terms.room - weight
    redis.pcall('HINCRBY', control, 'journal_bytes', string.format('%d', weight))
  else
    redis.pcall('HINCRBY', control, 'journal_lost', 1)
    redis.pcall('HSETNX', control, 'journal_lost_ms', ms_text(now_ms()))
  end
end
