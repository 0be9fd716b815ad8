"""The situations by the console: clicks and keys of somebody who has never been there. Each function returns what it read."""

import re

from proof.process import Wrong
from stage.night import BEFORE, CAUSE, CUSTOMER, TENANT

from .hands import ALERT, DONE, DRAWER, SEND, Words

ROWS = "main tbody tr:not(.gap)"
REASON = "the night on call"


class Clicks:
    """Somebody who uses the console, and counts. A word that is typed counts as one."""

    def __init__(self, watch):
        self.watch, self.page, self.words, self.acts = watch, watch.page, Words(), 0

    def begin(self):
        """Opens the first page."""
        self.acts = 0
        self.page.goto(self.watch.origin + "/", wait_until="commit")

    def click(self, place):
        place.click()
        self.acts += 1

    def press(self, key):
        self.page.keyboard.press(key)
        self.acts += 1

    def type(self, text, instead=False):
        """Types a word where the focus is, instead of what stands there."""
        if instead:
            self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(text)
        self.acts += 1

    def text(self, key):
        """Returns what begins with a text of the catalogue."""
        return re.compile("^\\s*" + re.escape(self.words[key]))

    def section(self, key):
        """Goes to a page of the navigation."""
        self.click(self.page.locator("aside nav a").filter(has_text=self.text(key)).first)

    def row(self, *texts):
        """Returns the row of the list that has all these texts."""
        found = self.page.locator(ROWS)
        for text in texts:
            found = found.filter(has_text=text)
        return found.first

    def tab(self, key):
        self.click(self.page.locator("main nav a").filter(has_text=self.text(key)).first)

    def button(self, key, within="main"):
        """Presses a button in a part of the page, which is a locator or its selector."""
        place = self.page.locator(within) if isinstance(within, str) else within
        self.click(place.locator("button, a.button").filter(has_text=self.text(key)).first)

    def menu(self, row, key, more=""):
        """Chooses an entry of the menu of a row."""
        self.click(row.locator("[aria-haspopup='menu']"))
        self.click(self.page.locator("[role='menu']:popover-open [role='menuitem']").filter(has_text=self.text(key)).filter(has_text=more).first)

    def filter(self, *words):
        """Types filters into the bar of a list."""
        self.click(self.page.locator("main [data-search]"))
        for word in words:
            self.type(word)
            self.press("Enter")

    def send(self):
        """Sends the form in the drawer, and waits until it was done."""
        self.click(self.page.locator(SEND).last)
        self.page.wait_for_function(DONE)
        said = self.page.locator(ALERT).all_inner_texts()
        if said:
            raise Wrong(f"it was not done: {' '.join(said)[:300]}")

    def see(self, place, text):
        """Waits until a part of the page shows a text, and returns all that it shows."""
        found = place.filter(has_text=text).first
        found.wait_for()
        return found.inner_text()

    def state(self, place, key):
        """Waits until a part of the page shows a state."""
        place.get_by_text(self.words[key], exact=True).first.wait_for()


def backlog(me, _):
    return me.see(me.page.locator("[aria-labelledby='trouble'] li"), "type:mail.newsletter")


def customer(me, _):
    me.click(me.page.locator("header .search"))
    me.type(CUSTOMER)
    me.click(me.page.locator("#commands li").filter(has_text=me.text("palette.find_text")))
    return me.see(me.page.locator(ROWS), "news-wanted")


def hung(me, _):
    me.section("nav.running")
    me.click(me.row("report-console").locator("a.mono").first)
    me.button("action.cancel_jobs")
    me.send()
    me.state(me.page.locator("main .title"), "state.cancelled")


def pause(me, _):
    me.click(me.row("orders").locator("a.name"))
    me.tab("queue.tab_types")
    row = me.row("order.import")
    me.menu(row, "action.pause_for", "1h")
    me.send()
    me.state(row, "state.paused")
    me.menu(row, "action.resume")
    me.send()
    row.get_by_text(me.words["state.paused"], exact=True).wait_for(state="detached")


def limit(me, _):
    me.section("nav.gates")
    me.button("gates.all")
    for queue in ("orders", "payments"):
        me.click(me.row("webhook.call", queue).locator("input[type='checkbox']"))
    me.button("action.limit_to", "[role='toolbar']")
    me.page.locator(f"{DRAWER} #limit-rate:focus").wait_for()
    me.type("5/s", instead=True)
    me.click(me.page.locator(f"{DRAWER} label").filter(has_text=me.text("limit.breaker")))
    me.send()
    for queue in ("orders", "payments"):
        me.see(me.row("webhook.call", queue), "5/s")


def canary(me, night):
    me.section("nav.dead")
    me.click(me.row(CAUSE["console"]).locator("a.error"))
    me.button("dead.edit")
    me.click(me.page.locator(f"{DRAWER} #edit-payload"))
    me.type('{"to": "ann@example.com", "cause": 0}', instead=True)
    me.send()
    me.button("group.try_one")
    me.send()
    night.repair()
    me.button("group.canary")
    me.send()
    task = me.page.locator(f"main section[aria-label='{me.words['replaying.label']}']")
    me.state(task, "state.canary")
    me.button("action.stop_task", task)
    me.send()
    me.state(task, "state.stopped")


def decide(me, _):
    me.button("action.decide", me.page.locator("[aria-labelledby='trouble'] li").filter(has_text="payments"))
    me.button("action.decide", me.row("payment-console"))
    me.click(me.page.locator(f"{DRAWER} input[value='done']"))
    me.click(me.page.locator(f"{DRAWER} input[maxlength='200']"))
    me.type(REASON)
    me.send()
    me.see(me.page.locator(".toast"), "charge")


def drain(me, night):
    row = me.row(night.names["console"].rpartition("-")[2])
    me.section("nav.workers")
    me.button("action.drain", row)
    me.send()
    me.state(row, "state.drained")


def move(me, _):
    me.click(me.row("bulk").locator("a.name"))
    me.tab("queue.tab_types")
    me.click(me.row("cache.warm").locator("a.name"))
    me.see(me.page.locator(ROWS), "cache.warm")
    me.button("bulk.open")
    me.button("bulk.move", DRAWER)
    me.click(me.page.locator(f"{DRAWER} #bulk-to"))
    me.click(me.page.locator(f"{DRAWER} [role='option']").filter(has_text="reports"))
    return begin_task(me)


def tenant(me, _):
    me.section("nav.jobs")
    me.filter(f"h.tenant={TENANT}")
    me.see(me.page.locator(ROWS), "tenant.export")
    me.button("bulk.open")
    return begin_task(me)


def begin_task(me):
    """Reads how many jobs a task will change, begins it, and waits for its end."""
    planned = me.see(me.page.locator(f"{DRAWER} [role='status'] p"), me.words["bulk.plan"].partition(" ")[0])
    me.send()
    me.state(me.page.locator("main li"), "state.done")
    return planned


def redis(me, _):
    lasts = me.see(me.page.locator(ROWS), "mail")
    me.section("nav.redis")
    return lasts + me.see(me.page.locator("main .memory"), "%")


def yesterday(me, _):
    me.section("nav.audit")
    me.filter("action:pause")
    return me.see(me.page.locator(ROWS), BEFORE["why"])
