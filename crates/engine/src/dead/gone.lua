-- gone: take back what letters hold that somebody deleted by hand: their places in their groups, and what keeps the records of
-- their jobs. A letter that exists keeps what it has, so a call that comes late or twice does no harm. What the fleet itself
-- deletes is in the list no longer.
-- list: the list of the letters. Each letter has two keys: the record and the ledger of its job.
-- keep_ms: how long a ledger stays if a `once` step has begun. Then the letters.
-- returns {how many held something}
local dead, list = KEYS[1], KEYS[2]
local keep_ms = ARGV[1]
local FIRST_KEY, KEYS_EACH, FIRST_LETTER = 3, 2, 2
local forgotten, exist = 0, existing_letters(dead, { unpack(ARGV, FIRST_LETTER) })
for at = FIRST_LETTER, #ARGV do
  local letter, key = ARGV[at], FIRST_KEY + KEYS_EACH * (at - FIRST_LETTER)
  local record, ledger = KEYS[key], KEYS[key + 1]
  local group, fingerprint, id, nth, held
  if not exist[letter] then
    group, fingerprint, id, nth = listed_letter(dead, letter)
    held = id ~= '' and is_hash(record) and redis.call('HMGET', record, 'letter:' .. letter, 'group:' .. letter)
    -- The list may have been lost; the record says it, too.
    if not group and held and held[1] then
      group, fingerprint, nth = string.match(held[2] or '', '^(%w*):(%w*) ')
    end
    redis.call('HDEL', list, letter)
  end
  -- A process of an older version, which has no list, takes letters out of their groups and their records, but not out of the list.
  if group and (id == '' or held and held[1]) then
    forgotten = forgotten + 1
    uncount_letter(dead, letter, group, fingerprint, nth)
    local token = held and string.match(held[2] or '', ' (%S+)$')
    if token then leave_to_copies(offloaded_key(dead, token)) end
    if held then end_dead_record(record, is_hash(ledger) and ledger or nil, letter, keep_ms) end
  end
end
return { forgotten }
