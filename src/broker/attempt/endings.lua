-- endings: take the word of jobs that were cancelled while no worker held them, a hundred at most.
-- KEYS 1 endings
-- returns {how many, 'id type why', ...}, with - for a type that nobody knows
local taken = redis.call('LPOP', KEYS[1], 100) or {}
table.insert(taken, 1, #taken)
return taken
