-- redate: reset the delivery time of entries that were renewed before the server's clock was set back. Their times lie
-- in the future, so they would be taken over that much later.
-- first: where to start. most: the most entries to check.
-- returns {entries whose time was reset, where to continue or ''}
local stream, first, most = KEYS[1], ARGV[1], ARGV[2]
local page = redis.pcall('XPENDING', stream, 'fleet', first, '+', most)
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
  dated = dated + #redis.call('XCLAIM', stream, 'fleet', owner, 0, unpack(ids))
end
return { dated, #page == tonumber(most) and '(' .. page[#page][1] or '' }
