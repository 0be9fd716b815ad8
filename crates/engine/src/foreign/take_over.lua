-- take_over: move elements of another system's queue into the stream of those that are being taken over, each with its score.
-- how: 'first' or 'last', the end of a list from which `count` elements are popped; or 'list' or 'set', which loses the elements that
-- follow. No more are popped once they have `most_bytes`.
-- returns {how many were moved}
local source, taken = KEYS[1], KEYS[2]
local how, count, most_bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local FIRST_ELEMENT = 4

local moved, bytes = 0, 0

local function move(element, score)
  redis.call('XADD', taken, '*', 'element', element, 'score', score)
  moved, bytes = moved + 1, bytes + #element
end

local function remove(element)
  if how == 'list' then
    return redis.call('LREM', source, 1, element) == 1 and ''
  end
  local score = redis.call('ZSCORE', source, element)
  return score and redis.call('ZREM', source, element) == 1 and score
end

for at = FIRST_ELEMENT, #ARGV do
  local score = remove(ARGV[at])
  if score then
    move(ARGV[at], score)
  end
end

local POP = { first = 'LPOP', last = 'RPOP' }
while POP[how] and moved < count and bytes < most_bytes do
  local element = redis.call(POP[how], source)
  if not element then
    break
  end
  move(element, '')
end
return { moved }
