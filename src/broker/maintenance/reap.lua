-- reap: delete a consumer whose process is gone. XGROUP DELCONSUMER drops pending entries, so it must have none.
-- KEYS 1 to 3 streams  4 its receipts
-- ARGV 1 consumer
-- returns {deleted, kept because something is pending}
local deleted, kept = 0, 0
for at = 1, 3 do
  if #redis.call('XPENDING', KEYS[at], 'fleet', '-', '+', 1, ARGV[1]) > 0 then
    kept = kept + 1
  else
    redis.call('XGROUP', 'DELCONSUMER', KEYS[at], 'fleet', ARGV[1])
    deleted = deleted + 1
  end
end
if kept == 0 then redis.call('DEL', KEYS[4]) end
return { deleted, kept }
