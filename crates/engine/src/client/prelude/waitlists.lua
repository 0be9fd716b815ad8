-- waitlists: the jobs that wait in waiting lists, and where they are.

-- The most entries of a waiting list that a script reads at once. Nobody knows how heavy they are, but those of a waiting list have at most
-- about 128 KiB.
local MOST_AT_ONCE = 2

-- Calls `one` with the id and the flat fields of entries of a waiting list, from its head: of at most `most`, and until they weigh
-- `most_weight` together, until it returns false.
local function each_in_waitlist(waitlist, most, most_weight, one)
  local from, left, sum = '-', most, 0
  while left > 0 and sum < most_weight do
    local count = math.min(left, MOST_AT_ONCE)
    local page = redis.call('XRANGE', waitlist, from, '+', 'COUNT', count)
    for _, entry in ipairs(page) do
      sum, left = sum + weigh(entry[2]), left - 1
      if one(entry[1], entry[2]) == false or sum >= most_weight then return end
    end
    if #page < count then return end
    from = '(' .. page[#page][1]
  end
end

-- Forgets a waiting list if it has no more jobs. Returns 1 if it has more, else 0.
local function has_more(waitlist, waitlists, asked, name)
  if redis.call('XLEN', waitlist) > 0 then return 1 end
  redis.call('DEL', waitlist)
  redis.call('HDEL', waitlists, name)
  redis.call('HDEL', asked, name)
  return 0
end

-- True if a value can be part of the name of a waiting list: at most 128 bytes of UTF-8 without control characters. Lua knows only
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

-- How many entries that hold places, or their places in waiting lists, one script may still check. Lua copies those that are in a waiting
-- list, so one that is large or has many fields counts as several.
local checks_left = 96

-- Notes where a job waits: the table of places has its entry and its waiting list under its id. If another job of this id waits in a
-- waiting list, that one gets a name of its own, by its generation. It must come after the first write of its script. Never throws.
local function note_location(locations, id, generation, entry, waitlist)
  local spot = entry .. ' ' .. waitlist
  if redis.pcall('HSETNX', locations, id, spot) ~= 0 then return end
  local before = redis.pcall('HGET', locations, id)
  local other, other_waitlist = string.match(type(before) == 'string' and before or '', '^(%d+%-%d+) (.+)$')
  if other then
    local stream = waitlist_key(locations, other_waitlist)
    local found = checks_left > 0 and redis.pcall('XRANGE', stream, other, other) or { err = 'not checked' }
    local other_generation = found[1] and field_of(found[1], 'life')
    if found[1] then checks_left = checks_left - 1 - math.floor(weigh(found[1][2]) / 8192) end
    if other_generation then
      redis.pcall('HSET', locations, second_name(id, other_generation), before)
    elseif found[1] or found.err then
      -- Nobody can tell whose place it is.
      id = second_name(id, generation)
    end
  end
  redis.pcall('HSET', locations, id, spot)
end

-- Forgets where a job waited, which has left this entry of a waiting list. Never throws.
local function forget_location(locations, id, generation, entry, waitlist)
  local is_first = redis.pcall('HGET', locations, id) == entry .. ' ' .. waitlist
  redis.pcall('HDEL', locations, is_first and id or second_name(id, generation))
end
