-- session_ended: look whether a person logged out of a session of the console.
-- ends_s: when the session would end. most: how many logouts are kept.
-- returns {1} yes, {0} no. If as many logouts are kept as can be, those that are forgotten count: none of them ended later than the
-- first that is kept.
local ended = KEYS[1]
local nonce, ends_s, most = unpack(ARGV)
if redis.call('ZSCORE', ended, nonce) then return { 1 } end
if redis.call('ZCARD', ended) < tonumber(most) then return { 0 } end
local first_s = redis.call('ZRANGE', ended, 0, 0, 'WITHSCORES')[2]
return { tonumber(ends_s) <= tonumber(first_s) and 1 or 0 }
