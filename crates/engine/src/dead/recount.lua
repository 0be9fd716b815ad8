-- recount: count the letters of all groups again, page by page, in a table that in the end takes the place of the one in
-- use. It begins with a write that a full Redis allows. Letters that come or go meanwhile are counted in both tables, unless
-- a page is so late that the recount counts as given up. How often jobs died of a group that the table in use knows is
-- carried over. Letters that name the group `other` get a group of their own, if there is room for one. Letters that are not in
-- the list of the letters, which may have been lost, are added to it.
-- call: the name of this recount. from: '' to begin, otherwise the last letter of the page before. to: the last letter of
-- this page, or '' if no letter is left. Then for each letter of the page: its id, the group that it names or '', its
-- fingerprint, the ms of its death, its type, its reason, its error, and the id of its job or ''.
-- returns {1, the last letter to count} begun, {1, to} this page is counted, {2} done, {0} another recount has begun, or
--   this one was given up
local dead, recount, gone, groups, second = unpack(KEYS)
local call, from, to = unpack(ARGV, 1, 3)
local FIRST_LETTER, VALUES = 4, 8
local reply = redis.call('HMGET', recount, 'table', 'call', 'bound', 'cursor', 'done', 'touched_ms', 'nth')
local now = now_ms()
local is_second = reply[1] == '2'
local live, coming = is_second and second or groups, is_second and groups or second
if from == '' then
  local newest = redis.call('XREVRANGE', dead, '+', '-', 'COUNT', 1)[1]
  local bound = newest and newest[1] or '0-0'
  redis.call('UNLINK', coming, gone)
  redis.call('HINCRBY', recount, 'nth', 1)
  redis.call('HSET', recount, 'call', call, 'bound', bound, 'cursor', '0-0', 'touched_ms', ms_text(now))
  return { 1, bound }
end
if reply[5] == call then return { 2 } end
if reply[2] ~= call or now - (tonumber(reply[6] or '') or 0) >= RECOUNT_MS then return { 0 } end
if to == '' then
  redis.call('HDEL', recount, 'call', 'bound', 'cursor', 'touched_ms')
  redis.call('HSET', recount, 'table', is_second and '1' or '2', 'counted', reply[3], 'done', call, 'done_nth', reply[7] or 0)
  redis.call('UNLINK', live, gone)
  return { 2 }
end
if reply[4] == to then return { 1, to } end
if reply[4] ~= from then return { 0 } end
-- How many deaths a letter adds to its group.
local function deaths_of(group)
  local function known(counts)
    local figures = redis.pcall('HGET', counts, group)
    return type(figures) == 'string' and tonumber(string.match(figures, '^%d+ (%d+) '))
  end
  local died = known(live)
  return died and math.max(died - (known(coming) or 0), 0) or 1
end
-- Notes in the list that this recount has counted a letter.
local function list(letter, group, fingerprint, id)
  local _, _, known = listed_letter(dead, letter)
  local record = record_key(dead, id)
  if not known then known = redis.pcall('HEXISTS', record, 'letter:' .. letter) == 1 and id or '' end
  redis.pcall('HSET', letters_key(dead), letter, group .. ':' .. fingerprint .. ' ' .. known .. ' ' .. (reply[7] or 0))
end
for at = FIRST_LETTER, #ARGV, VALUES do
  local letter, group, fingerprint, ms, job_type, reason, error_text, id = unpack(ARGV, at, at + VALUES - 1)
  -- A letter that was deleted after it was read does not count.
  if redis.call('HDEL', gone, letter) == 0 then
    list(letter, group, fingerprint, id)
    if group == '' or group == 'other' then group = group_for(coming, fingerprint) end
    add_to_group(coming, group, deaths_of(group), tonumber(ms), letter, job_type, reason, error_text)
  end
end
redis.call('HSET', recount, 'cursor', to, 'touched_ms', ms_text(now))
return { 1, to }
