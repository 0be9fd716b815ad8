-- endings: take the notes about jobs that were cancelled while no worker held them, at most a hundred.
-- KEYS 1 endings
-- returns {how many, 'id type why', ...}, with - for an unknown type
local taken = redis.call('LPOP', KEYS[1], 100) or {}
table.insert(taken, 1, #taken)
return taken
