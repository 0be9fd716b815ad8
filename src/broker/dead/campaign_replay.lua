-- campaign_replay: replay the next letters of a campaign, as many as its rate allows by now, and move its cursor past them
-- in the same step. A campaign that was slow catches up by a second at most. It begins with the write that a full Redis
-- refuses, so it is refused as a whole. A letter that cannot be replayed is skipped.
-- state, cursor: those that were read. to: the last letter before the next page. per_second: the rate. most: the most
-- letters to replay. max_replays: how often campaigns replay a job. Then the letters, each with its record among the keys.
-- returns {1, letters replayed, the cursor} done, {0} its state or its cursor is another: nothing was changed
local campaign, dead, high, normal, low = unpack(KEYS, 1, 5)
local id, state, cursor, to, per_second, most, max_replays = unpack(ARGV, 1, 7)
local FIRST_LETTER, FIRST_RECORD = 8, 6
local told = redis.call('HMGET', campaign, 'state', 'cursor', 'due_ms')
if told[1] ~= state or told[2] ~= cursor then return { 0 } end
local now = now_ms()
local due = math.max(tonumber(told[3] or '') or now, now - 1000)
redis.call('HSET', campaign, 'due_ms', string.format('%.3f', due))
local replayed, skipped, nth, letters = 0, 0, 0, #ARGV - FIRST_LETTER + 1
while nth < letters and replayed < tonumber(most) and due <= now do
  cursor = ARGV[FIRST_LETTER + nth]
  local found = letter_at(dead, cursor)
  local count = found and (tonumber(field_of(found, 'dead_campaigns') or '') or 0)
  local done = false
  if found and count < tonumber(max_replays) then
    local fingerprint = string.match(field_of(found, 'dead_fingerprint') or '', '^%w+$') or '-'
    local tag = id .. ' ' .. fingerprint .. string.format(' %.0f', count + 1)
    done = pcall(back_to_lane, dead, found, KEYS[FIRST_RECORD + nth], { high, normal, low }, false, tag)
  end
  if done then
    replayed, due = replayed + 1, due + 1000 / tonumber(per_second)
  else
    skipped = skipped + 1
  end
  nth = nth + 1
end
if nth == letters then cursor = to end
redis.call('HSET', campaign, 'cursor', cursor, 'due_ms', string.format('%.3f', due))
redis.call('HINCRBY', campaign, 'replayed', replayed)
redis.call('HINCRBY', campaign, 'skipped', skipped)
return { 1, replayed, cursor }
