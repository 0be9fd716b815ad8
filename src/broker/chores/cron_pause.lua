-- cron_pause: pause a recurring job, or let it go on from now.
-- KEYS 1 cron:ticks
-- ARGV 1 name  2 ' paused' or ''
-- returns {1} done, {0} it is so already, {2} there is none of this name
local state = redis.call('HGET', KEYS[1], ARGV[1])
if not state then return { 2 } end
local handled, generation, words = string.match(state, '^(%d+) (%d+)(.*)$')
handled, generation, words = handled or '0', generation or '0', words or ''
local before, mark = string.match(words, '^(.-)( paused)$')
if (mark or '') == ARGV[2] then return { 0 } end
-- Allowed when Redis is out of memory, and admits the writes behind it: a pause must be possible then.
redis.call('PERSIST', KEYS[1])
words = (before or words) .. ARGV[2]
if ARGV[2] == '' then
  local now, run, done = now_ms(), string.match(words, ' run=(%d+)'), ''
  -- What was submitted by a clock that was ahead, and has been set back, is not submitted again.
  for span in string.gmatch(words, ' done=%d+%-%d+') do done = done .. span end
  if run and tonumber(handled) > now then done = done .. ' done=' .. run .. '-' .. handled end
  handled, words = string.format('%.0f', now), done
end
redis.call('HSET', KEYS[1], ARGV[1], handled .. ' ' .. generation .. words)
redis.call('HINCRBY', KEYS[1], ':revision', 1)
return { 1 }
