-- task_turn: end a page of a task. Its script counted what it changed; what was left alone is counted here, and the next page begins.
-- A full Redis allows it.
-- page: the one that ends. done: how many jobs the task must have changed so far. If it changed more, another process was on this page:
-- jobs have moved since it was read. cursor: where the next page begins. problem: an error of a job, or ''. Then names of counts,
-- each with what it grows by.
-- returns {1} done, {0} the task is not on this page any more, or does not run, or the page must be read again
local task = KEYS[1]
local page, done, cursor, problem = unpack(ARGV, 1, 4)
local FIRST_COUNT = 5
if not is_on_page(task, page) or (redis.call('HGET', task, 'done') or '0') ~= done then return { 0 } end
-- Redis allows this even when it is out of memory, and then admits the other writes.
redis.call('HDEL', task, '')
redis.call('HSET', task, 'page', text_after(page), 'cursor', cursor)
if problem ~= '' then redis.call('HSET', task, 'error', problem) end
for at = FIRST_COUNT, #ARGV, 2 do redis.call('HINCRBY', task, ARGV[at], ARGV[at + 1]) end
return { 1 }
