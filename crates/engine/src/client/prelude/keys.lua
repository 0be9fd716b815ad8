-- keys: the names of keys. A key is in KEYS if its caller can name it and every call needs it. Any other key is derived here from a key
-- of its queue, so both have the same hash tag, and in a cluster they are on the same server. Nothing else in a script builds the name
-- of a key or takes one apart. client/keys.rs has the same names, and a test compares the two.
-- These names of keys mean the same in every script. packs: delayed:fields. locations: cancels:places, or where the jobs of waiting lists
-- are, see note_location. ticks: cron:ticks. ledger: that of the steps of a job. offloaded: the key of the large fields of the entry or
-- job in question, see keep_offloaded.

-- What the keys of a queue begin with: its namespace and its hash tag.
local function prefix_of(key)
  return string.match(key, '^[^}]*}:')
end

-- A function that returns the key of this name in the queue of a key.
local function key_of(name)
  return function(key)
    return prefix_of(key) .. name
  end
end

-- A function that returns the key of this name with an id at its end, in the queue of a key.
local function key_with_id(name)
  return function(key, id)
    return prefix_of(key) .. name .. id
  end
end

-- What follows the kind of a key in its name, as the id in that of a record; nil if the key is of another kind.
local function name_in(key, kind)
  return string.match(key, '^[^}]*}:' .. kind .. ':(.*)$')
end

-- True if this key is a placeholder, which never exists: it ends with its kind.
local function is_placeholder(key)
  return string.find(key, '^[^}]*}:%a+:$') ~= nil
end

-- The stream of a lane.
local function lane_key(key, lane)
  return prefix_of(key) .. (lane == 'normal' and 'jobs' or 'jobs:' .. lane)
end

-- The stream of the jobs that wait in a waiting list.
local waitlist_key = key_with_id('room:')

-- The name of the waiting list that this stream is; nil if it is a lane.
local function waitlist_name(stream)
  return name_in(stream, 'room')
end

-- The table of the places of the jobs in waiting lists; see note_location.
local waitlist_locations_key = key_of('rooms:places')

-- A part of a gate's state. kind: rate, held, unstarted, breaker or claim.
local function gate_key(key, kind, name)
  return prefix_of(key) .. kind .. ':' .. name
end

-- The delayed set.
local delayed_key = key_of('delayed')

-- The packed fields of the jobs in the delayed set.
local packs_key = key_of('delayed:fields')

-- The record of a job.
local record_key = key_with_id('job:')

-- The lock of a unique key; for '', a placeholder.
local lock_key = key_with_id('unique:')

-- The key of large fields; for '', a placeholder.
local offloaded_key = key_with_id('offloaded:')

-- The dead letters.
local dead_key = key_of('dead')

-- The list of the dead letters: each with its group and its fingerprint, as write_letter returns them, the id of its job or '', and
-- the number of the last recount that has counted it. Somebody may delete a letter by hand, and nothing else tells then what it held;
-- see gone.
local letters_key = key_of('dead:letters')

-- The large fields of letters that are gone, and of which there may be copies; see leave_to_copies.
local copied_key = key_of('dead:offloaded')

-- The two tables that count the groups of dead letters; see group_tables.
local function group_keys(key)
  local first = prefix_of(key) .. 'dead:groups'
  return first, first .. ':2'
end

-- What is known about recounts of the groups, and the letters that were deleted during one.
local function recount_keys(key)
  local recount = prefix_of(key) .. 'dead:recount'
  return recount, recount .. ':gone'
end

-- One task that replays dead letters.
local campaign_key = key_with_id('campaign:')

-- One task of another kind.
local task_key = key_with_id('task:')

-- The list of the jobs that were cancelled while no worker held them.
local endings_key = key_of('endings')

-- Facts that the fleet agrees on.
local control_key = key_of('control')

-- The journal of the jobs that ended.
local journal_key = key_of('journal')
