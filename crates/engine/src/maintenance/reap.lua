-- reap: delete a consumer whose process is gone. XGROUP DELCONSUMER drops pending entries, so it must have none.
-- returns {deleted, kept because something is pending}
local high, normal, low, receipts = unpack(KEYS)
local consumer = ARGV[1]
local deleted, kept = 0, 0
for _, stream in ipairs({ high, normal, low }) do
  if #redis.call('XPENDING', stream, 'fleet', '-', '+', 1, consumer) > 0 then
    kept = kept + 1
  else
    redis.call('XGROUP', 'DELCONSUMER', stream, 'fleet', consumer)
    deleted = deleted + 1
  end
end
if kept == 0 then redis.call('DEL', receipts) end
return { deleted, kept }
