"""Redis hangs, or goes and comes back. Figures stay, grey and with their time, and nobody has to reload the page."""

import signal

from .hands import Words

ROWS = "main tbody tr:not(.gap)"
# What answers may have while Redis is away.
AWAY = {500, 502, 503, 504}


def freeze(visit):
    """Redis hangs: it takes requests, and answers none."""
    send = visit.stage.redis_process.send_signal
    what = "Redis hangs, and the page says since when its figures are as they are"
    outage(visit, what, lambda: send(signal.SIGSTOP), lambda: send(signal.SIGCONT))


def restart(visit):
    """Redis is killed, and starts again with what it has saved."""
    outage(visit, "Redis is killed and started again, and the page goes on by itself", visit.stage.kill_redis, visit.stage.restart_redis)


def outage(visit, what, begin, end):
    """Looks at an open page, and at one that is opened then, during an outage and after it."""
    watch = visit.watch()

    def find():
        page = watch.page
        yield from watch.open("/")
        rows = page.locator(ROWS).count()
        watch.expected = AWAY
        begin()
        try:
            page.locator(".banner").wait_for()
            page.locator("main .stale").first.wait_for()
            if page.locator(ROWS).count() != rows:
                yield f"{page.locator(ROWS).count()} of {rows} rows are left"
            if Words()["fresh.stale"] not in page.locator("header").first.inner_text():
                yield f"the header does not say how old the figures are: {page.locator('header').first.inner_text()!r}"
            yield from visit.axe.findings(page)
            # A page that has never had figures claims none.
            page.locator("nav a[href$='/jobs']").first.click()
            page.locator("main h1").wait_for()
            page.wait_for_timeout(500)
            if Words()["jobs.none"] in page.locator("main").inner_text():
                yield "a list that has seen nothing says that there is nothing"
            page.go_back()
        finally:
            end()
        page.locator(".banner").wait_for(state="detached")
        page.locator("main .stale").first.wait_for(state="detached")
        watch.settle()
        if page.locator(ROWS).count() != rows:
            yield f"there are {page.locator(ROWS).count()} rows afterwards, not {rows}"
        yield from (each for each in watch.complaints() if "ERR_ABORTED" not in each)

    visit.judge(what, find, watch)
    watch.close()
