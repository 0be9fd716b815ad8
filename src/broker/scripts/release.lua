-- release: give one entry back unchanged, at the tail of its lane. No attempt is spent.
-- KEYS 1 stream  2 record  3 cancels
-- ARGV 1 consumer  2 entry id  3 created ms  4 job id  5.. fields, flat
-- returns {1} released, {0} stale (somebody else settled this entry; nothing was changed), {2} done already: gone,
--   {3} somebody wants it cancelled: nothing was changed
if not hold(KEYS[1], ARGV[1], ARGV[2]) then return { 0 } end
if is_done(KEYS[2], ARGV[3]) then
  settle(KEYS[1], ARGV[2])
  return { 2 }
end
if is_unwanted(KEYS[3], ARGV[4], ARGV[3]) then return { 3 } end
local entry = must_append(KEYS[1], ARGV, 5, #ARGV)
-- A retry that has not started stays one, so that a late success can still cancel it.
if is_passing(KEYS[2], ARGV[3]) then redis.call('DEL', KEYS[2]) end
local state = redis.call('HGET', KEYS[2], 'state')
if state and state ~= 'retrying' then redis.call('HSET', KEYS[2], 'state', 'waiting', 'entry', entry) end
settle(KEYS[1], ARGV[2])
return { 1 }
