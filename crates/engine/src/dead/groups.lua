-- groups: a page of the groups of dead letters; see add_to_group for what is known about each.
-- cursor: '0' to begin. most: about how many to return.
-- returns {letters in the dead stream, name of the table, cursor of the next page or '0', {group, its figures, ...}}. If the
--   table is another than that of the page before, a recount has ended meanwhile: begin again.
local dead, recount, groups, second = unpack(KEYS)
local cursor, most = unpack(ARGV)
local live = redis.call('HGET', recount, 'table') == '2' and second or groups
local page = redis.call('HSCAN', live, cursor, 'COUNT', most)
return { redis.call('XLEN', dead), live, page[1], page[2] }
