-- cron_pause: pause a recurring job, or resume it from now on.
-- KEYS 1 cron:ticks
-- ARGV 1 name  2 ' paused' or ''
-- returns {1} done, {0} already so, {2} none has this name
local state = redis.call('HGET', KEYS[1], ARGV[1])
if not state then return { 2 } end
local handled, generation, words = string.match(state, '^(%d+) (%d+)(.*)$')
handled, generation, words = handled or '0', generation or '0', words or ''
local before, mark = string.match(words, '^(.-)( paused)$')
if (mark or '') == ARGV[2] then return { 0 } end
-- Redis allows this even when it is out of memory, and then admits the other writes: pausing must work even then.
redis.call('PERSIST', KEYS[1])
words = (before or words) .. ARGV[2]
if ARGV[2] == '' then
  local now, run, done = now_ms(), string.match(words, ' run=(%d+)'), ''
  -- Ticks that were submitted while the clock was ahead are not submitted again after it was set back.
  for span in string.gmatch(words, ' done=%d+%-%d+') do done = done .. span end
  if run and tonumber(handled) > now then done = done .. ' done=' .. run .. '-' .. handled end
  handled, words = string.format('%.0f', now), done
end
redis.call('HSET', KEYS[1], ARGV[1], handled .. ' ' .. generation .. words)
redis.call('HINCRBY', KEYS[1], ':revision', 1)
return { 1 }
