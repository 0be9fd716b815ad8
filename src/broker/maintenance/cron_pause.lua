-- cron_pause: pause a recurring job, or resume it from now on.
-- paused: ' paused' or ''.
-- returns {1} done, {0} already so, {2} none has this name
local ticks = KEYS[1]
local name, paused = unpack(ARGV)
local state = redis.call('HGET', ticks, name)
if not state then return { 2 } end
local handled, generation, words = string.match(state, '^(%d+) (%d+)(.*)$')
handled, generation, words = handled or '0', generation or '0', words or ''
local before, mark = string.match(words, '^(.-)( paused)$')
if (mark or '') == paused then return { 0 } end
-- Redis allows this even when it is out of memory, and then admits the other writes: pausing must work even then.
redis.call('PERSIST', ticks)
words = (before or words) .. paused
if paused == '' then
  local now, run, done = now_ms(), string.match(words, ' run=(%d+)'), ''
  -- Ticks that were submitted while the clock was ahead are not submitted again after it was set back.
  for span in string.gmatch(words, ' done=%d+%-%d+') do done = done .. span end
  if run and tonumber(handled) > now then done = done .. ' done=' .. run .. '-' .. handled end
  handled, words = string.format('%.0f', now), done
end
redis.call('HSET', ticks, name, handled .. ' ' .. generation .. words)
redis.call('HINCRBY', ticks, ':revision', 1)
return { 1 }
