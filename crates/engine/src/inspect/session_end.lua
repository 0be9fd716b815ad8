-- session_end: note that a person logged out of a session of the console. A full Redis refuses it.
-- ends_s: when the session would have ended. kept_s: how much longer that is known, since clocks differ. most: how many logouts
-- are kept; then the one whose session would have ended first is forgotten, and session_ended counts all that end no later than the first.
-- returns {1} noted
local ended = KEYS[1]
local nonce, ends_s, kept_s, most = unpack(ARGV)
local now_s = now_ms() / 1000
redis.call('ZADD', ended, ends_s, nonce)
redis.call('ZREMRANGEBYSCORE', ended, '-inf', string.format('(%.0f', now_s - kept_s))
redis.call('ZREMRANGEBYRANK', ended, 0, -(most + 1))
local last_s = redis.call('ZREVRANGE', ended, 0, 0, 'WITHSCORES')[2]
if last_s then redis.call('PEXPIRE', ended, string.format('%.0f', math.max(last_s - now_s + kept_s, 1) * 1000)) end
return { 1 }
