-- schedule: put jobs into the delayed set. A job whose id is already in the set stays as it is. A call that is sent
-- twice gets its receipt as the answer: by then its jobs may have been due, and have run.
-- KEYS 1 delayed  2 delayed:fields  3 wake  4 control  5 stream high  6 stream normal  7 stream low  8 receipt of the call
-- ARGV 1 the producer's limit of the depth or ''
--      then for each job: id, 'in' or 'at', milliseconds, and its packed fields in two parts: before and after the 13 digits of
--      the time of its acceptance; then the last part of the name of the key that has its large fields, or ''
-- returns {added}, or {-1, depth, limit} if they do not fit
local given = receipt_of(KEYS[8])
if given then return given end
local limit = depth_limit(KEYS[4], ARGV[1])
if limit then
  local more = 0
  for at = 2, #ARGV, 6 do more = more + 1 - redis.call('HEXISTS', KEYS[2], ARGV[at]) end
  local full = more > 0 and overfull(limit, more, KEYS[1], KEYS[5], KEYS[6], KEYS[7])
  if full then return full end
end
-- Nothing is written if this fails: fields without a time would be taken for an existing job.
redis.call('ZCARD', KEYS[1])
local now, added = now_ms(), 0
local digits, beside = string.format('%013.0f', now), string.gsub(KEYS[1], 'delayed$', 'offloaded:')
for at = 2, #ARGV, 6 do must_be_offloaded(beside .. ARGV[at + 5]) end
for at = 2, #ARGV, 6 do
  local id, due = ARGV[at], tonumber(ARGV[at + 2])
  if ARGV[at + 1] == 'in' then due = now + due end
  if redis.call('HSETNX', KEYS[2], id, ARGV[at + 3] .. digits .. ARGV[at + 4]) == 1 then
    keep_offloaded(beside .. ARGV[at + 5])
    redis.call('ZADD', KEYS[1], due, id)
    nudge(KEYS[1], KEYS[3], id)
    added = added + 1
  end
end
if added > 0 then keep_receipt(KEYS[8], { added }) end
return { added }
