-- delayed: the delayed set, and the packed fields of its jobs.

-- The member of the delayed set that holds this generation; nil if none does.
local function parked(delayed, packs, id, generation)
  local own = second_name(id, generation)
  if redis.call('ZSCORE', delayed, own) then return own end
  local pack = redis.call('ZSCORE', delayed, id) and redis.call('HGET', packs, id)
  if pack and generation_of(pack) == generation then return id end
end

-- Takes out a member of the delayed set, with its large fields: somebody may have edited it since it was read.
local function unpark(delayed, packs, member, generation, record)
  drop_offloaded(offloaded_by(redis.call('HGET', packs, member) or '', delayed), generation, record)
  redis.call('ZREM', delayed, member)
  redis.call('HDEL', packs, member)
end

-- The fraction of a score of the delayed set. It orders jobs that are due in the same millisecond.
local function rank_of(score)
  score = tonumber(score)
  return math.abs(score) < 2 ^ 53 and score % 1 or 0
end

-- Notifies the promoter, which blocks on this list, if the head of the delayed set is one of these members, which are
-- new there. If that fails, the promoter only learns of it later: what was written before is not written again.
local function nudge(delayed, wake, members)
  if members[redis.call('ZRANGE', delayed, 0, 0)[1] or ''] then
    redis.pcall('LPUSH', wake, 1)
    redis.pcall('LTRIM', wake, 0, 0)
    redis.pcall('PEXPIRE', wake, 5000)
  end
end

-- Puts packed fields that cannot be set aside now into the delayed set: the promoter tries it when they are due, again and again.
-- stream: any key of the queue. Returns false if that is not possible either; never throws.
local function put_by(stream, member, packed, due_ms)
  local delayed, packs = delayed_key(stream), packs_key(stream)
  if type(redis.pcall('HSET', packs, member, packed)) == 'table' then return false end
  if type(redis.pcall('ZADD', delayed, due_ms, member)) ~= 'table' then return true end
  redis.pcall('HDEL', packs, member)
  return false
end
