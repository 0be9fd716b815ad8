"""The console with many jobs: how soon it shows figures, what it finds, and whether it ever stands still."""

import json
import re

from stage.fleet import SOON

from .hands import Words

# Budgets in milliseconds, on a machine that runs WORK in REFERENCE_MS.
FIGURES_MS = 300
LONG_MS = 50
REFERENCE_MS = 20
# How often a thing is measured. Other programs may be in the way of one, so the best one counts.
TRIES = 5
WORK = """
() => Math.min(...[1, 2, 3, 4, 5].map(() => {
  const began = performance.now();
  let sum = 0;
  for (let n = 0; n < 5e6; n += 1) sum += Math.sqrt(n) % 3;
  return sum < 0 ? 0 : performance.now() - began;
}))
"""
ADD = """
for number = tonumber(ARGV[1]), tonumber(ARGV[2]) do
  local payload = '{"customer":' .. number % 1000 .. ',"note":"one of many"}'
  redis.call('XADD', KEYS[1], '*', 'type', 'order.import', 'id', 'many-' .. number, 'payload', payload)
end
"""
# How many jobs one call adds, so that Redis goes on answering.
AT_ONCE = 10_000
# The jobs of one customer, of whom there are 1000.
CUSTOMER = 77
# Whether a search has ended, or claims too early that there is nothing.
ENDED = """
([again, none]) => {
  if ([...document.querySelectorAll('.progress button')].some((button) => button.innerText.trim() === again)) return 'ended';
  return document.querySelector('main')?.innerText.includes(none) ? 'too early' : false;
}
"""
DOCUMENT = "() => performance.getEntriesByType('navigation')[0].responseEnd"


def check(visit, count):
    """Lets so many jobs wait, and uses the console meanwhile."""
    fill(visit.stage, count)
    watch = visit.watch()
    watch.open("/")
    slow = max(1, watch.page.evaluate(WORK) / REFERENCE_MS)
    early, short = f"within {FIGURES_MS * slow:.0f} ms after the document", f"without a pause above {LONG_MS * slow:.0f} ms"
    for what, find in {
        f"first figures {early}": lambda: figures(watch, slow),
        "a search finds all, and says how far it is": lambda: search(watch, count, slow),
        f"lists scroll, sort and go on {short}": lambda: lists(watch, slow),
    }.items():
        visit.judge(f"{count} jobs wait: {what}", find, watch)
    watch.close()


def fill(stage, count):
    """Lets so many jobs wait in a paused queue."""
    queues = map(json.loads, stage.streamfleet("queues", "-o", "jsonl").splitlines())
    if not any(queue["queue"] == "imports" and queue["paused_since"] for queue in queues):
        stage.streamfleet("pause", "--queue", "imports", "--reason", "many jobs come")
    for first in range(1, count + 1, AT_ONCE):
        stage.redis("EVAL", ADD, "1", "sf:{imports}:jobs", str(first), str(min(first + AT_ONCE - 1, count)))


def figures(watch, slow):
    """Yields a complaint if the overview is late."""
    after = []
    for _ in range(TRIES):
        yield from watch.open("/")
        shown, long = watch.seen()
        after.append((round(shown - watch.page.evaluate(DOCUMENT)), long))
    print(f"      first figures after the document, in ms, and long tasks: {after}", flush=True)
    if min(ms for ms, _ in after) > FIGURES_MS * slow:
        yield f"the first figures came after {min(after)} ms"
    yield from long_tasks("the overview", [long for _, long in after], slow)


def search(watch, count, slow):
    """Searches among all waiting jobs."""
    page, said, words, long = watch.page, watch.page.locator(".progress p").first, Words(), []
    for _ in range(2):
        yield from watch.open("/")
        watch.seen()
        page.goto(f"{watch.origin}/jobs?queue=imports&where=payload.customer%3D{CUSTOMER}", wait_until="load")
        how = page.wait_for_function(ENDED, arg=[words["jobs.again"], words["jobs.none"]], timeout=SOON * 1000).json_value()
        if how != "ended":
            yield "it says that there is none before it has looked at everything"
        long.append(watch.seen()[1])
    # Numbers are written in groups of three digits.
    told = re.sub(r"(?<=\d)[\s,\u202f](?=\d{3})", "", said.inner_text())
    rows = count // 1000 + (1 if count % 1000 >= CUSTOMER else 0)
    if not re.search(rf"\b{rows}\b", told):
        yield f"it says {told!r}, not that it found {rows}"
    print(f"      {told}; long tasks in ms: {long}", flush=True)
    yield from watch.complaints()
    yield from long_tasks("searching", long, slow)


def lists(watch, slow):
    """Lists jobs, goes on, sorts and scrolls."""
    page, words = watch.page, Words()
    yield from watch.open("/jobs?queue=imports")
    stop, on = (page.locator(".progress button", has_text=words[key]).first for key in ("jobs.stop", "jobs.continue"))
    stop.wait_for(state="detached")
    if on.count():
        on.click()
        page.locator("main tbody tr").first.wait_for()
        stop.wait_for(state="detached")
    print(f"      {page.locator('.progress p').first.inner_text()}; long tasks in ms: {watch.seen()[1]}", flush=True)

    def sort(nth):
        page.locator("th button").nth(nth).click()
        page.wait_for_timeout(300)

    for what, act in {
        "sorting by id": lambda: sort(0),
        "sorting by type": lambda: sort(2),
        "sorting by age": lambda: sort(4),
        "scrolling": lambda: page.mouse.wheel(0, 40_000),
        "selecting all": lambda: page.locator("th input[type='checkbox']").first.check(),
    }.items():
        long = []
        for _ in range(TRIES):
            page.evaluate("() => scrollTo(0, 0)")
            page.locator("th input[type='checkbox']").first.uncheck()
            page.wait_for_timeout(100)
            watch.seen()
            act()
            page.wait_for_timeout(200)
            long.append(watch.seen()[1])
        print(f"      {what}: long tasks in ms: {long}", flush=True)
        yield from long_tasks(what, long, slow)
    yield from watch.complaints()


def long_tasks(what, tries, slow):
    """Yields a complaint if even the best try had a task that was too long."""
    worst = min(max(each, default=0) for each in tries)
    if worst > LONG_MS * slow:
        yield f"{what}: the browser stood still for {worst} ms in the best of {len(tries)} tries"
