-- task_turn: end a page of a task. Its script counted what it changed; what was left alone is counted here, and the next page begins.
-- A full Redis allows it.
-- page: the one that ends. cursor: where the next one begins. problem: an error of a job, or ''. Then names of counts, each with what
-- it grows by.
-- returns {1} done, {0} the task is not on this page any more, or does not run
local task = KEYS[1]
local page, cursor, problem = unpack(ARGV, 1, 3)
local FIRST_COUNT = 4
if not is_on_page(task, page) then return { 0 } end
-- Redis allows this even when it is out of memory, and then admits the other writes.
redis.call('HDEL', task, '')
redis.call('HSET', task, 'page', text_after(page), 'cursor', cursor)
if problem ~= '' then redis.call('HSET', task, 'error', problem) end
for at = FIRST_COUNT, #ARGV, 2 do redis.call('HINCRBY', task, ARGV[at], ARGV[at + 1]) end
return { 1 }
