-- claim: take over entries whose lease was not renewed for this long, if the server's clock shows what the claimer
-- expects. A clock that jumped, or a server that paused just before this script, makes the entries of live owners look
-- silent. Like XAUTOCLAIM, it checks ten times as many pending entries as it may take, and no more.
-- KEYS 1 stream
-- ARGV 1 consumer  2 ms of silence  3 the first id  4 the most entries  5 and 6 what the clock must show, from and to, in ms
-- returns {1, where to continue or '0-0', entries that were pending but deleted, {{id, who held it,
--   ms of its silence}, ...}}, {0} the clock shows another time
local now = now_ms()
if now < tonumber(ARGV[5]) or now > tonumber(ARGV[6]) then return { 0 } end
local most, silence = 10 * ARGV[4], tonumber(ARGV[2])
local pending, owners, some = redis.call('XPENDING', KEYS[1], 'fleet', ARGV[3], '+', most), {}, false
for _, held in ipairs(pending) do
  owners[held[1]] = held
  some = some or held[3] >= silence
end
-- The check with XAUTOCLAIM costs five times as much.
if not some then return { 1, #pending == most and pending[most][1] or '0-0', 0, {} } end
local page, taken = redis.call('XAUTOCLAIM', KEYS[1], 'fleet', ARGV[1], ARGV[2], ARGV[3], 'COUNT', ARGV[4], 'JUSTID'), {}
for at, id in ipairs(page[2]) do
  local held = owners[id] or {}
  taken[at] = { id, held[2] or '-', held[3] or 0 }
end
return { 1, page[1], #(page[3] or {}), taken }
