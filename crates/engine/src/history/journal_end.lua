-- journal_end: delete entries of the journal that the database has. Only those count that were still there, so the call may be repeated.
-- The values are, for each entry, its id and its weight; see write_end.
-- returns {how many were deleted}
local journal, control = KEYS[1], KEYS[2]
local ended, weight = 0, 0
for at = 1, #ARGV, 2 do
  local entry, entry_weight = ARGV[at], ARGV[at + 1]
  if redis.call('XDEL', journal, entry) == 1 then
    ended, weight = ended + 1, weight + tonumber(entry_weight)
  end
end
if redis.call('XLEN', journal) == 0 then
  redis.call('HDEL', control, 'journal_bytes')
elseif weight > 0 then
  redis.call('HINCRBY', control, 'journal_bytes', string.format('%.0f', -weight))
end
return { ended }
