"""The console with many jobs: how soon it shows figures, what it finds, and whether it ever stands still."""

import re

from stage.fleet import SOON

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
  redis.call('XADD', KEYS[1], '*', 'type', 'order.import', 'id', 'many-' .. number, 'payload', '{"customer":' .. number % 1000 .. ',"note":"one of many"}')
end
"""
# How many jobs one call adds, so that Redis goes on answering.
AT_ONCE = 10_000
# The jobs of one customer, of whom there are 1000.
CUSTOMER = 77
DOCUMENT = "() => performance.getEntriesByType('navigation')[0].responseEnd"


def check(visit, count):
    """Lets so many jobs wait, and uses the console meanwhile."""
    fill(visit.stage, count)
    watch = visit.watch()
    watch.open("/")
    slow = max(1, watch.page.evaluate(WORK) / REFERENCE_MS)
    visit.judge(f"{count} jobs wait: first figures within {FIGURES_MS * slow:.0f} ms after the document", lambda: figures(watch, slow), watch)
    visit.judge(f"{count} jobs wait: a search finds all, and says how far it is", lambda: search(watch, count, slow), watch)
    visit.judge(f"{count} jobs wait: lists scroll, sort and go on without a pause above {LONG_MS * slow:.0f} ms", lambda: lists(watch, count, slow), watch)
    watch.close()


def fill(stage, count):
    """Lets so many jobs wait in a paused queue."""
    if "imports" not in stage.streamfleet("queues", "-o", "name").split():
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
    page, said = watch.page, watch.page.locator(".progress p").first
    found = []
    for _ in range(2):
        yield from watch.open("/")
        watch.seen()
        page.goto(f"{watch.origin}/jobs?queue=imports&where=payload.customer%3D{CUSTOMER}", wait_until="load")
        # It never claims that there is nothing before it has looked at everything.
        page.wait_for_function(
            """() => {
              const said = document.querySelector('.progress p')?.innerText ?? '';
              if (!/all of|everything/i.test(said) && /No job matches/.test(document.body.innerText)) return 'too early';
              return /all of|everything/i.test(said) ? 'done' : false;
            }""",
            timeout=SOON * 1000,
        )
        found.append(watch.seen()[1])
    rows = count // 1000 + (1 if count % 1000 >= CUSTOMER else 0)
    if not re.search(rf"\b{rows:,}\b", said.inner_text()):
        yield f"it says {said.inner_text()!r}, not that it found {rows}"
    print(f"      {said.inner_text()} long tasks in ms: {found}", flush=True)
    yield from watch.complaints()
    yield from long_tasks("searching", found, slow)


def lists(watch, count, slow):
    """Lists jobs, goes on, sorts and scrolls."""
    page = watch.page
    yield from watch.open("/jobs?queue=imports")
    watch.page.locator(".progress p").first.wait_for()
    on = page.locator(".progress button", has_text="Continue")
    if count > 5000:
        on.wait_for()
        on.click()
        page.wait_for_timeout(200)
        page.locator(".progress button", has_text=re.compile("Continue|Search again|Again")).first.wait_for()
    print(f"      {page.locator('.progress p').first.inner_text()} Long tasks in ms: {watch.seen()[1]}", flush=True)

    def sort(nth):
        page.locator("th button").nth(nth).click()
        page.wait_for_timeout(300)

    for what, act in {
        "sorting by id": lambda: sort(0),
        "sorting by type": lambda: sort(2),
        "sorting by age": lambda: sort(4),
        "scrolling": lambda: page.mouse.wheel(0, 40_000),
        "selecting all": lambda: page.locator("th input[type='checkbox']").first.click(),
    }.items():
        long = []
        for _ in range(TRIES):
            page.evaluate("() => scrollTo(0, 0)")
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
