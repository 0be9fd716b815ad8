-- cron_pause: pause a recurring job, or resume it. Ticks during the pause are never submitted.
-- paused: ' paused' or ''.
-- returns {1} done, {0} already so, {2} none has this name
local ticks = KEYS[1]
-- The most pauses that are remembered while nobody handles what was due before them.
local MOST_PAUSES = 8
local name, paused = unpack(ARGV)
local state = redis.call('HGET', ticks, name)
if not state then return { 2 } end
local handled, generation, words = string.match(state, '^(%d+) (%d+)(.*)$')
handled, generation, words = handled or '0', generation or '0', words or ''
local before, mark = string.match(words, '^(.-)( paused)$')
if (mark or '') == paused then return { 0 } end
-- Redis allows this even when it is out of memory, and then admits the other writes: pausing must work even then.
redis.call('PERSIST', ticks)
words = before or words
local now = now_ms()
if paused ~= '' then
  words = words .. ' pausing=' .. ms_text(now) .. paused
else
  local since, run, done = tonumber(string.match(words, ' pausing=(%d+)') or ''), string.match(words, ' run=(%d+)'), ''
  words = string.gsub(words, ' pausing=%d+', '')
  local _, pauses = string.gsub(words, ' off=', '')
  if since and since <= now and pauses < MOST_PAUSES then
    -- What was due before the pause still is.
    words = words .. ' off=' .. ms_text(since) .. '-' .. ms_text(now)
  else
    -- Ticks that were submitted while the clock was ahead are not submitted again after it was set back.
    for span in string.gmatch(words, ' done=%d+%-%d+') do done = done .. span end
    if run and tonumber(handled) > now then done = done .. ' done=' .. run .. '-' .. handled end
    handled, words = ms_text(now), done
  end
end
redis.call('HSET', ticks, name, handled .. ' ' .. generation .. words)
redis.call('HINCRBY', ticks, ':revision', 1)
return { 1 }
