"""Everything that a person can do, each through its link and its form, as a person would: by mouse or by keyboard."""

import json
import re

from proof.process import Wrong

REASON = "the check of the browser"


class Hands:
    """Somebody who uses a page."""

    def __init__(self, watch, stage):
        self.watch, self.page, self.stage = watch, watch.page, stage

    def click(self, selector):
        """Clicks what is found, and waits for the page that follows."""
        found = self.page.locator(selector).first
        found.wait_for()
        with self.page.expect_navigation(wait_until="load"):
            found.click()

    def press(self, selector):
        """Goes to what is found with the keyboard, and presses Enter."""
        self.page.locator(selector).first.focus()
        with self.page.expect_navigation(wait_until="load"):
            self.page.keyboard.press("Enter")

    def fill(self, **fields):
        """Fills the fields of the form, and gives a reason."""
        form = self.page.locator("main form.fields")
        for name, value in fields.items():
            field = form.locator(f"[name='{name.rstrip('_')}']")
            if field.evaluate("field => field.tagName") == "SELECT":
                field.select_option(value)
            elif field.get_attribute("type") == "checkbox":
                field.set_checked(value)
            else:
                field.fill(value)
        reason = form.locator("[name='reason']")
        if reason.count():
            reason.fill(REASON)

    def send(self, by_keyboard=False):
        """Sends the form. Returns what is wrong with the answer: it must say that it was done."""
        if by_keyboard:
            self.press("main form.fields [name='reason']")
        else:
            self.click("main form.fields .actions button[type='submit']")
        good = self.page.locator(".message.good")
        said = self.page.locator(".message").all_inner_texts() or self.page.locator("main").all_inner_texts()
        complaints = self.watch.complaints() + self.watch.content()
        return complaints if good.count() else [f"it was not done: {' '.join(said)[:300]}", *complaints]


def act(hands, path, link, by_keyboard=False, **fields):
    """Opens a page, follows the link to an action, fills its form and sends it. Returns what went wrong."""
    found = hands.watch.open(path)
    hands.click(link)
    if not hands.page.locator("main form.fields").count():
        return [*found, f"{link} leads to {hands.page.url}, which has no form"]
    hands.fill(**fields)
    return found + hands.send(by_keyboard)


def left(hands, queue, state, *ids):
    """Returns which of these jobs are not in this state, although they should be."""
    try:
        for each in ids:
            hands.stage.until_job(queue, each, state)
    except Wrong as wrong:
        return [str(wrong)]
    return []


def submit(hands):
    found = hands.watch.open("/submit")
    payload = '{"customer": 3, "lines": 2}'
    hands.fill(queue="orders", type="order.import", payload=payload, id="browser-1", track=True)
    found += hands.send(by_keyboard=True)
    if not hands.page.url.endswith("/queues/orders/jobs/browser-1"):
        found.append(f"it leads to {hands.page.url}")
    return found + left(hands, "orders", "done", "browser-1")


def show_commands(hands):
    found = hands.watch.open("/submit")
    hands.fill(queue="orders", type="order.import", payload="{}", show=True)
    hands.click("main form.fields .actions button[type='submit']")
    said = hands.page.locator("main").inner_text()
    missing = [word for word in ("XADD", "curl") if word not in hands.page.content()]
    return found + hands.watch.complaints() + [f"there is no command with {word}: {said[:200]}" for word in missing]


def another(hands):
    link = "main .actions a[href*='/submit?'][href*='later-5']"
    found = act(hands, "/queues/orders/jobs/later-5", link, id="again-1")
    return found + left(hands, "orders", "done", "again-1")


def cancel(hands):
    found = act(hands, "/queues/orders/jobs/later-1", "a[href$='/jobs/later-1/cancel']", by_keyboard=True)
    return found + left(hands, "orders", "cancelled", "later-1")


def cancel_running(hands):
    found = hands.watch.open("/running")
    hands.click("main a[href$='/jobs/report-november']")
    hands.click("a[href$='/jobs/report-november/cancel']")
    hands.fill()
    return found + hands.send() + left(hands, "orders", "cancelled", "report-november")


def run_now(hands):
    found = act(hands, "/queues/orders/jobs/later-2", "a[href$='/jobs/later-2/run-now']")
    return found + left(hands, "orders", "done", "later-2")


def reschedule(hands):
    return act(hands, "/queues/orders/jobs/later-3", "a[href$='/jobs/later-3/reschedule']", by_keyboard=True, due="5h")


def edit(hands):
    found = act(hands, "/queues/orders/jobs/later-4", "a[href$='/jobs/later-4/edit']", payload='{"lines": 1, "note": "edited"}')
    shown = hands.stage.streamfleet("status", "later-4", "--queue", "orders")
    return found if "edited" in shown else [*found, f"the payload is unchanged: {shown}"]


def decide(hands):
    found = hands.watch.open("/decisions")
    if not hands.page.locator("main a", has_text="payment-").count():
        found.append("the inbox has no payment that waits for a decision")
    for job, verdict in (("payment-1", "done"), ("payment-3", "give-up"), ("payment-4", "run")):
        link = f"a[href*='/jobs/{job}/steps/charge/decide'][href*='verdict={verdict}']"
        found += act(hands, f"/queues/orders/jobs/{job}", link, by_keyboard=verdict == "run")
    return found + left(hands, "orders", "done", "payment-1")


def gates(hands):
    found = act(hands, "/gates", "a[href^='/queues/orders/gates/limit']", concurrency="6")
    found += act(hands, "/gates", "a[href^='/queues/mail/gates/pause']", by_keyboard=True, **{"for": "1h"})
    found += act(hands, "/gates?queue=mail", "a[href^='/queues/mail/gates/resume']")
    return found


def recurring(hands):
    found = []
    for action in ("pause", "resume", "run", "remove"):
        found += act(hands, "/recurring", "a[href$='/recurring/weekly']", by_keyboard=action == "run", action=action)
    return found


def bulk(hands):
    found = act(hands, "/queues/imports?tab=waiting&id=import-1", "a[href*='/bulk/move']", to="orders")
    found += left(hands, "orders", "done", "import-1", "import-12")
    found += act(hands, "/queues/imports?tab=waiting", "a[href*='/bulk/cancel']")
    found += act(hands, "/queues/orders?tab=retrying", "a[href*='/bulk/run-now']")
    return found + left(hands, "imports", "cancelled", "import-2")


def replay(hands):
    hands.stage.repair()
    found = hands.watch.open("/queues/mail/jobs/mail-1")
    hands.click("main .actions a[href$='/replay']")
    hands.fill()
    return found + hands.send(by_keyboard=True) + left(hands, "mail", "done", "mail-1")


def edit_letter(hands):
    found = hands.watch.open("/queues/mail/jobs/mail-2")
    hands.click("main .actions a[href*='/queues/mail/dead/']:not([href$='/replay'])")
    hands.click("main .actions a[href$='/edit']")
    hands.fill(payload='{"to": "ann@example.com"}')
    return found + hands.send()


def drop(hands):
    found = hands.watch.open("/queues/mail/jobs/mail-3")
    hands.click("main .actions a[href*='/queues/mail/dead/']:not([href$='/replay'])")
    hands.click("main .actions a[href$='/drop']")
    hands.fill()
    return found + hands.send()


def campaign(hands):
    found = hands.watch.open("/queues/mail/dead")
    hands.click("main .actions a[href*='/campaigns/plan']")
    hands.fill(rate="0.05", canary="", stop_at="")
    found += hands.send()
    here = re.sub(r"^https?://[^/]+", "", hands.page.url)
    for action in ("pause", "resume", "stop"):
        found += act(hands, here, f"main .actions a[href$='/{action}']", by_keyboard=action == "resume")
    return found


def acknowledge(hands):
    found = hands.watch.open("/incidents")
    hands.click("#list a[href^='/incidents/']")
    incident = hands.page.url.rpartition("/")[2]
    hands.click("main .actions a[href$='/ack']")
    hands.fill(for_="2h")
    found += hands.send(by_keyboard=True)
    listed = json.loads(hands.stage.streamfleet("alerts", "list", "-o", "json"))["items"]
    known = [each.get("acknowledged") for each in listed if each["id"] == incident]
    return found if known and (known[0] or {}).get("why") == REASON else [*found, f"it is not acknowledged: {known}"]


def test_sink(hands):
    found = hands.watch.open("/alerts")
    hands.click("main form[action='/alerts/ops/test'] button")
    if not hands.page.locator(".message.good").count():
        found.append(f"it was not done: {hands.page.locator('main').inner_text()[:300]}")
    taken = [each for each in hands.stage.sink.messages if "TEST" in json.dumps(each)]
    if len(taken) != 1:
        found.append(f"the sink has {len(taken)} test messages")
    return found + hands.watch.complaints()


def drop_all(hands):
    found = hands.watch.open("/queues/mail/dead?letters=all&reason=malformed")
    hands.click("main .actions a[href*='/dead-drop']")
    hands.fill(queue="mail")
    found += hands.send()
    left_over = hands.stage.streamfleet("dead", "list", "--queue", "mail", "--dead-reason", "malformed", "-o", "name").split()
    return found + [f"the letter {each} is still there" for each in left_over]


def search(hands):
    found = hands.watch.open("/")
    hands.page.keyboard.press("/")
    hands.page.keyboard.type("mail-5")
    with hands.page.expect_navigation(wait_until="load"):
        hands.page.keyboard.press("Enter")
    if not hands.page.locator("main").get_by_text("mail-5").count():
        found.append(f"the search finds nothing: {hands.page.url}")
    return found + hands.watch.complaints()


def keys(hands):
    """Shortcuts, the list of them, and the link that skips the navigation."""
    found, page = hands.watch.open("/"), hands.page
    page.keyboard.press("Tab")
    if page.evaluate("() => document.activeElement.getAttribute('href')") != "#main":
        found.append("the first Tab does not lead to the link that skips the navigation")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("?")
    if not page.locator("dialog[open]").count():
        found.append("? opens no list of keys")
    page.keyboard.press("Escape")
    for section in page.locator("nav.sections a[data-key]").all():
        key, target = section.get_attribute("data-key"), section.get_attribute("href")
        if target == "/":
            continue
        page.keyboard.press(key[0])
        with page.expect_navigation(wait_until="load"):
            page.keyboard.press(key[1])
        if not page.url.endswith(target):
            found.append(f"{key} leads to {page.url}, not to {target}")
        page.go_back(wait_until="load")
    return found + hands.watch.complaints()


def rows(hands):
    """j and k go from row to row, and Enter opens what a row is about."""
    found, page = hands.watch.open("/jobs?queue=orders&state=scheduled"), hands.page
    links = page.locator("main tbody tr").evaluate_all("rows => rows.map((row) => row.querySelector('a[href]').href)")
    if len(set(links)) < 3:
        return [*found, f"the list has too few rows: {links}"]
    for key, row in (("j", 0), ("j", 1), ("j", 2), ("k", 1), ("k", 0), ("k", 0), ("j", 1)):
        page.keyboard.press(key)
        at = page.evaluate("() => document.activeElement.href")
        if at != links[row]:
            found.append(f"{key} leads to {at}, not to {links[row]}")
    with page.expect_navigation(wait_until="load"):
        page.keyboard.press("Enter")
    if page.url != links[1]:
        found.append(f"Enter leads to {page.url}, not to {links[1]}")
    return found + hands.watch.complaints()


def live(hands):
    """A page shows a job that was submitted while it was open."""
    found, page = hands.watch.open("/queues/imports?tab=waiting"), hands.page
    before = page.locator("#jobs").inner_text()
    hands.stage.streamfleet("enqueue", "order.import", "{}", "--queue", "imports", "--id", "import-live")
    try:
        page.wait_for_function("before => document.getElementById('jobs').innerText !== before", arg=before, timeout=60_000)
    except Exception as late:  # Playwright's own, whose text says what it waited for.
        found.append(f"the page did not change within 60 s: {late}")
    return found + hands.watch.complaints()


def preferences(hands):
    found, page = hands.watch.open("/gates"), hands.page
    root = page.locator("html")
    chosen = [("theme", "dark"), ("language", "zh"), ("language", "en"), ("theme", "auto")]
    for name, value in chosen:
        attribute = "data-theme" if name == "theme" else "lang"
        hands.click(f"header form[action='/preferences'] button[name='{name}'][value^='{value}']")
        if not (root.get_attribute(attribute) or "").startswith(value):
            found.append(f"{name} {value} has no effect: {root.get_attribute(attribute)}")
        if not page.url.endswith("/gates"):
            found.append(f"the choice leads to {page.url}")
    return found + hands.watch.complaints()


def log_out(hands):
    found = hands.watch.open("/")
    hands.click("form[action='/logout'] button")
    if "/login" not in hands.page.url:
        found.append(f"it leads to {hands.page.url}")
    hands.page.goto(hands.watch.origin + "/jobs", wait_until="load")
    if "/login" not in hands.page.url:
        found.append("pages are shown without a login")
    return found


# In this order, because some change what others need. The last one ends the session.
ALL = {
    "the search box finds a job, by keyboard": search,
    "keys lead to every section, and a link skips the navigation": keys,
    "keys lead from row to row of a list": rows,
    "a page shows what happens while it is open": live,
    "theme and language can be chosen": preferences,
    "a job is submitted": submit,
    "commands that submit a job are shown": show_commands,
    "another job like one that exists is submitted": another,
    "an incident is acknowledged": acknowledge,
    "a sink is tested": test_sink,
    "a delayed job is cancelled": cancel,
    "a running job is cancelled": cancel_running,
    "a delayed job runs now": run_now,
    "a delayed job is rescheduled": reschedule,
    "the payload of a delayed job is edited": edit,
    "three steps are decided": decide,
    "a gate is limited, closed and opened": gates,
    "a recurring job is paused, resumed, run and removed": recurring,
    "many jobs are moved, cancelled and brought forward": bulk,
    "a dead letter is replayed": replay,
    "a dead letter is edited": edit_letter,
    "a dead letter is dropped": drop,
    "a campaign is begun, paused, resumed and stopped": campaign,
    "dead letters that match a filter are dropped": drop_all,
    "the person logs out": log_out,
}
