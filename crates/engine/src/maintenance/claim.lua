-- claim: take over entries whose lease was not renewed for this long, if the server's clock shows what the claimer
-- expects. A clock that jumped, or a server that paused just before this script, makes the entries of live owners look
-- silent. Like XAUTOCLAIM, it checks ten times as many pending entries as it may take, and no more.
-- first: where to start. count: the most entries to take over. from_ms, to_ms: what the clock must show.
-- returns {1, where to continue or '0-0', entries that were pending but deleted, {{id, who held it,
--   ms of its silence}, ...}}, {0} the clock shows another time
local stream = KEYS[1]
local consumer, silence_ms, first, count, from_ms, to_ms = unpack(ARGV)
local now = now_ms()
if now < tonumber(from_ms) or now > tonumber(to_ms) then return { 0 } end
local most, silence = 10 * count, tonumber(silence_ms)
local pending, owners, some = redis.call('XPENDING', stream, 'fleet', first, '+', most), {}, false
for _, held in ipairs(pending) do
  owners[held[1]] = held
  some = some or held[3] >= silence
end
-- The check with XAUTOCLAIM costs five times as much.
if not some then return { 1, #pending == most and pending[most][1] or '0-0', 0, {} } end
local page = redis.call('XAUTOCLAIM', stream, 'fleet', consumer, silence_ms, first, 'COUNT', count, 'JUSTID')
local taken = {}
for at, id in ipairs(page[2]) do
  local held = owners[id] or {}
  taken[at] = { id, held[2] or '-', held[3] or 0 }
end
return { 1, page[1], #(page[3] or {}), taken }
