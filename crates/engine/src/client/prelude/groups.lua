-- groups: the counts of dead letters with the same fingerprint.

-- The most groups of dead letters that are counted apart. The letters of all other groups are counted as one, `other`.
local MOST_GROUPS = 10000

-- After this many ms without progress, a recount is abandoned: changes are no longer written to its table.
local RECOUNT_MS = 600000

-- The table that counts the groups of dead letters, and the one that a recount is filling, or nil. Then the last letter that an
-- earlier recount counted, the last one that this recount will count, and the last one that it has counted; then the numbers of
-- these two recounts. A recount fills another table, because letters come and go while it runs; see recount.
local function group_tables(dead)
  local reply = redis.pcall('HMGET', (recount_keys(dead)), 'table', 'counted', 'bound', 'cursor', 'touched_ms', 'done_nth', 'nth')
  if reply.err then reply = {} end
  local live, coming = group_keys(dead)
  if reply[1] == '2' then live, coming = coming, live end
  local goes_on = reply[3] and now_ms() - (tonumber(reply[5] or '') or 0) < RECOUNT_MS
  return live, goes_on and coming or nil, reply[2], reply[3], reply[4], tonumber(reply[6] or ''), tonumber(reply[7] or '')
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
  local reply = redis.pcall('HGET', groups, group)
  if type(reply) == 'table' then return end
  local count, died, first, last, sample = string.match(reply or '', '^(%d+) (%d+) (%d+) (%d+) (.*)$')
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
  local reply = redis.pcall('HGET', groups, group)
  if type(reply) ~= 'string' then return end
  local count, times, sample, rest = string.match(reply, '^(%d+) (%d+ %d+ %d+) (%S+) (.*)$')
  if (tonumber(count) or 0) <= 1 then return redis.pcall('HDEL', groups, group) end
  if sample == letter then sample = '-' end
  redis.pcall('HSET', groups, group, string.format('%.0f ', count - 1) .. times .. ' ' .. sample .. ' ' .. rest)
end
