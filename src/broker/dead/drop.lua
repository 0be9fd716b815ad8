-- drop: delete one dead letter, and its job's record unless another life uses it.
-- KEYS 1 dead  2 record  3 the ledger of its steps  4 the letter's offloaded fields
-- ARGV 1 entry id of the dead letter  2 '' or how many ms letters stay  3 '' or how many letters stay
--      If one of these two is given, the letter is deleted only if it is older, or the oldest of more letters.
--      4 ms to keep the ledger
-- returns {1} dropped, {0} no such dead letter, {2} kept
local retention, most = tonumber(ARGV[2]), tonumber(ARGV[3])
if retention or most then
  -- The id of a letter begins with the time of its death.
  local is_old = retention and now_ms() - tonumber(string.match(ARGV[1], '^%d+')) > retention
  local is_over = false
  if not is_old and most and redis.call('XLEN', KEYS[1]) > most then
    is_over = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1][1] == ARGV[1]
  end
  if not is_old and not is_over then
    return { #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1]) == 1 and 2 or 0 }
  end
end
if redis.call('XDEL', KEYS[1], ARGV[1]) == 0 then return { 0 } end
-- Somebody may have copied the letter.
drop_offloaded(KEYS[4], '')
unmark_letter(KEYS[2], ARGV[1], KEYS[3])
local told = redis.call('HMGET', KEYS[2], 'state', 'dead_id', 'holds')
local is_its = told[2] == ARGV[1] or not told[2] and told[3]
-- True if a step of the kind `once` has begun.
local function has_once()
  for _, step in ipairs(begun_steps(KEYS[3])) do
    if step[2] == 'once' then return true end
  end
  return false
end
local lives = tonumber(redis.call('HGET', KEYS[3], 'lives') or '0')
if told[1] == 'dead' and is_its and tonumber(told[3] or '0') <= 0 then
  redis.call('DEL', KEYS[2])
  -- Another life of this id may be on its way and must not repeat what is done, so such a ledger outlives the letter.
  if has_once() or lives > 0 then expire_ledger(KEYS[3], ARGV[4]) else redis.call('DEL', KEYS[3]) end
elseif told[2] == ARGV[1] then
  redis.call('HDEL', KEYS[2], 'dead_id')
end
return { 1 }
