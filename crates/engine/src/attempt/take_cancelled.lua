-- take_cancelled: take the notes about jobs that were cancelled while no worker held them, at most a hundred.
-- returns {how many, 'id type why', ...}, with - for an unknown type
local endings = KEYS[1]
local taken = redis.call('LPOP', endings, 100) or {}
table.insert(taken, 1, #taken)
return taken
