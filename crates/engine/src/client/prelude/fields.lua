-- fields: the names and values of a job, flat as an entry has them, or packed.

-- Appends a name and its value to a flat list.
local function add_pair(list, name, value)
  list[#list + 1] = name
  list[#list + 1] = value
end

-- The number after this one, as text. What is no number counts as 0.
local function text_after(number)
  return string.format('%d', (tonumber(number or '') or 0) + 1)
end

-- The value of a letter's field; nil if it has none.
local function field_of(letter, name)
  for at = 1, #letter[2], 2 do
    if letter[2][at] == name then return letter[2][at + 1] end
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

-- Appends an entry. An error ends the script: for texts that were checked before its first write.
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

-- The generation that packed fields name, normally in their first field; nil if they name none.
local function generation_of(pack)
  local head = string.byte(pack, 1)
  local at = head == 0xdc and 3 or head == 0xdd and 5 or 1
  local read, _, _, name, generation = pcall(cmsgpack.unpack_limit, pack, 3, at)
  if read and name == 'life' then return generation end
  local whole, fields = pcall(cmsgpack.unpack, pack)
  if not whole or type(fields) ~= 'table' then return nil end
  local created
  for field = 2, #fields, 2 do
    if fields[field] == 'life' then return fields[field + 1] end
    if fields[field] == 'created_ms' then created = fields[field + 1] end
  end
  return created
end

-- The name of this generation in a table that has another generation under the id itself. No other job has it as its id: an id has no
-- space.
local function second_name(id, generation)
  return id .. ' ' .. (generation or '')
end
