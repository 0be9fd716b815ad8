-- file: write dead letters of jobs that ended elsewhere. A job whose id is known here stays as it is.
-- Each job has two keys: record, kept. kept: the key of the letter's large fields. After its values come `count` fields, flat.
-- returns {1, {for each job its letter, '' if its id is known, or '!' and why it was refused}}
local dead, delayed = KEYS[1], KEYS[2]
local FIRST_KEY, KEYS_EACH, VALUES = 3, 2, 10
-- Nothing is written if one of these fails.
redis.call('ZCARD', delayed)
must_end_letters(dead)
for key = FIRST_KEY + 1, #KEYS, KEYS_EACH do must_be_offloaded(KEYS[key]) end
local function file(record, kept, at)
  local id, generation, lane, job_type, created_ms, died_ms, reason, error_text, fingerprint, count = unpack(ARGV, at, at + VALUES - 1)
  if not is_hash(record) then return '!the key ' .. record .. ' is of another type' end
  local reply = redis.call('HMGET', record, 'state', 'member', 'life')
  if reply[3] or standing_of(reply, id, delayed) then return '' end
  local letter = {}
  for field = at + VALUES, at + VALUES + count - 1 do letter[#letter + 1] = ARGV[field] end
  local letter_id, group = write_letter(dead, letter, fingerprint, 1, tonumber(died_ms), job_type, reason, error_text, record)
  if type(letter_id) == 'table' then error(letter_id, 0) end
  keep_offloaded(kept)
  redis.call('HSET', record, 'state', 'dead', 'life', generation, 'type', job_type, 'lane', lane, 'created_ms', created_ms, 'dead_id',
    letter_id, 'error', error_text, 'first_failed_ms', died_ms)
  mark_letter(record, letter_id, generation, group, kept)
  return letter_id
end
local answers, at, key = {}, 1, FIRST_KEY
while at <= #ARGV do
  answers[#answers + 1] = file(KEYS[key], KEYS[key + 1], at)
  if answers[#answers] == '' then forget_offloaded(KEYS[key + 1]) end
  at, key = at + VALUES + ARGV[at + VALUES - 1], key + KEYS_EACH
end
return { 1, answers }
