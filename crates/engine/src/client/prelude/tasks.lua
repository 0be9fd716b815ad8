-- tasks: what scripts that change many jobs do for the task that asks, and the mark that it leaves in these jobs.

-- True if a task that changes many jobs still works on this page; only then may a script change jobs for it. task: its key, or nil
-- or a placeholder if no task asks.
local function is_on_page(task, page)
  if not task or is_placeholder(task) then return true end
  local reply = redis.call('HMGET', task, 'state', 'page')
  return reply[1] == 'running' and reply[2] == page
end

-- Counts jobs that a script has changed for a task, as jobs that it has looked at, too, and notes when its rate allows the next one.
-- If the clock was set back, that need not be waited for. It must come after the first write of its script; never throws.
local function count_for_task(task, what, jobs, now)
  if jobs == 0 or not task or is_placeholder(task) then return end
  redis.pcall('HINCRBY', task, what, jobs)
  redis.pcall('HINCRBY', task, 'looked', jobs)
  local reply = redis.pcall('HMGET', task, 'step_ms', 'due_ms')
  local step_ms = tonumber(reply[1] or '')
  if not step_ms then return end
  local due = math.min(math.max(tonumber(reply[2] or '') or now, now - 1000), now + math.max(step_ms, 1000))
  redis.pcall('HSET', task, 'due_ms', string.format('%.3f', due + jobs * step_ms))
end

-- Packed fields of a job with the one that names the task that last moved it or made it due; see bulk/fence.rs. nil if it cannot be
-- added: a worker would refuse one more, they are not only texts, or some of them are elsewhere, and their number is known.
local function with_mark(packed, mark)
  local list = #packed <= 262144 and unpacked(packed)
  if not list or #list > 1999 then return nil end
  local at, is_light = nil, false
  for nth = 2, #list, 2 do
    if list[nth] == 'by_task' then at = nth end
    is_light = is_light or list[nth] == 'offloaded'
  end
  if is_light and (not at or #tostring(list[at + 1]) ~= #mark) then return nil end
  at = at or #list + 1
  list[at], list[at + 1] = 'by_task', mark
  for _, value in ipairs(list) do
    if type(value) ~= 'string' then return nil end
  end
  return cmsgpack.pack(list)
end
