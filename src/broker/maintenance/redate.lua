-- redate: reset the delivery time of entries that were renewed before the server's clock was set back. Their times lie
-- in the future, so they would be taken over that much later.
-- KEYS 1 stream
-- ARGV 1 the first id  2 the most entries to check
-- returns {entries whose time was reset, where to continue or ''}
local page = redis.pcall('XPENDING', KEYS[1], 'fleet', ARGV[1], '+', ARGV[2])
if page.err then return { 0, '' } end
local owners, dated = {}, 0
for _, entry in ipairs(page) do
  if entry[3] <= 0 then
    owners[entry[2]] = owners[entry[2]] or {}
    table.insert(owners[entry[2]], entry[1])
  end
end
for owner, ids in pairs(owners) do
  ids[#ids + 1] = 'JUSTID'
  dated = dated + #redis.call('XCLAIM', KEYS[1], 'fleet', owner, 0, unpack(ids))
end
return { dated, #page == tonumber(ARGV[2]) and '(' .. page[#page][1] or '' }
