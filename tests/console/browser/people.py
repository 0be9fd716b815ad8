"""People: how they log in, what each of them may see and do, two of them at once, and one whose session ends."""

from .hands import ALERT, DRAWER, REASON, SEND, Words
from .ways import palette

# What a viewer must not see: a payload, a secret in it, and an error.
SECRETS = ("ann3@example.com", "hunter2", "mailbox unavailable", "gnp.live")
# The paths of pages that have the most to hide.
OF_QUEUE = ("history", "history/:job", "jobs/:job", "dead", "dead/groups/:group", "dead/:letter")
SECRET_PAGES = ("", "jobs", "incidents", "gates", "queues/:queue", *(f"queues/:queue/{path}" for path in OF_QUEUE))
REASON_FIELD = f"{DRAWER} input[maxlength='200']"
# What nobody but an operator may do.
PAUSE = "/api/v1/queues/imports/pause"


def log_in(visit):
    """Logs in with the keyboard, after a wrong password."""
    watch = visit.watch(person=None)

    def find():
        page = watch.page
        found = watch.open("/jobs?state=dead", 401)
        found += visit.axe.findings(page)
        typed(watch, "admin", "wrong-password")
        page.locator("form:has(#login-name) [role='alert']").wait_for()
        typed(watch, "admin", visit.stage.people["admin"])
        page.locator("#login-password").wait_for(state="detached")
        found += watch.settle()
        if not page.url.endswith("/jobs?state=dead"):
            found.append(f"the login leads to {page.url}")
        cookies = [each for each in page.context.cookies() if each["name"] == "streamfleet"]
        if not cookies or not cookies[0]["httpOnly"] or cookies[0]["sameSite"] not in ("Lax", "Strict"):
            found.append(f"the cookie is {cookies}")
        return found + watch.complaints()

    visit.judge("a person logs in with the keyboard, and a wrong password is refused", find, watch)
    watch.close()


def typed(watch, name, password):
    """Types a name and a password, and sends them."""
    keyboard = watch.page.keyboard
    watch.page.locator("#login-name").focus()
    keyboard.press("Control+A")
    keyboard.type(name)
    keyboard.press("Tab")
    keyboard.type(password)
    keyboard.press("Enter")


def viewer(visit, every):
    """A viewer sees no payloads and no errors, is offered nothing to do, and is refused what they ask for all the same."""
    watch = visit.watch(person="viewer")

    def find():
        for path in SECRET_PAGES:
            address = every.address(path, {"queue": "mail", "job": "mail-3"} if path.startswith("queues") else {})
            for each in watch.open(address, 403):
                yield f"{address}: {each}"
            for secret in SECRETS:
                if secret in watch.page.content():
                    yield f"{address} shows {secret}"
            for each in watch.page.locator("main .danger, main .primary").all_inner_texts():
                yield f"{address} offers {each!r}"
        watch.open("/submit")
        if watch.page.locator("main textarea, main input").count():
            yield "/submit has a form for a viewer"
        yield from refused(watch, PAUSE, {"reason": REASON})

    visit.judge("a viewer sees no payloads, and is offered nothing to do", find, watch)
    watch.close()


def reader(visit, every):
    """A viewer with the right to see payloads sees them without what only operators see."""
    watch = visit.watch(person="reader")

    def find():
        for path in ("queues/:queue/jobs/:job", "queues/:queue/dead/:letter", "queues/:queue/dead/groups/:group"):
            address = every.address(path, {"queue": "mail", "job": "mail-3"})
            for each in watch.open(address):
                yield f"{address}: {each}"
            shown = watch.page.content()
            if "hunter2" in shown:
                yield f"{address} shows a password"
            if "ann3@example.com" not in shown and "mailbox unavailable" not in shown:
                yield f"{address} hides everything"
        watch.open(every.address("queues/:queue/jobs/:job", {"queue": "mail", "job": "mail-3"}))
        if Words()["job.masked"] not in watch.page.locator("main").inner_text():
            yield "a job does not say that some of its fields are masked"

    visit.judge("a viewer who may see payloads sees no passwords in them", find, watch)
    watch.close()


def submitter(visit, every):
    """A submitter may submit, and nothing else."""
    watch = visit.watch(person="submitter")

    def find():
        yield from watch.open("/submit")
        if watch.page.locator("main h1").count() != 1:
            yield "/submit is not shown"
        yield from watch.open(every.address("queues/:queue/jobs/:job", {"job": "later-5"}), 403)
        for each in watch.page.locator("main .danger").all_inner_texts():
            yield f"a job offers {each!r}"
        yield from refused(watch, PAUSE, {"reason": REASON})

    visit.judge("a submitter may submit, and nothing else", find, watch)
    watch.close()


def refused(watch, path, body):
    """Yields a complaint unless the API refuses a change, with the token of the page's own session."""
    status = watch.page.evaluate(
        """async ([path, body]) => {
          const { person } = await (await fetch('/api/v1/session')).json();
          const headers = { 'content-type': 'application/json', 'X-CSRF-Token': person.csrf_token };
          return (await fetch(path, { method: 'POST', headers, body: JSON.stringify(body) })).status;
        }""",
        [path, body],
    )
    watch.expected.add(403)
    if status != 403:
        yield f"POST {path} got {status}, not 403"


def two_operators(visit):
    """One pauses a queue while the other is about to: the second is told, and nothing of the first is lost without being asked."""
    ann, bob = visit.watch(person="operator"), visit.watch(person="admin")

    def find():
        for watch in (ann, bob):
            yield from watch.open("/")
            palette(watch, "Pause", "mail")
            watch.page.locator(f"{DRAWER} form").wait_for()
        # The way back is offered for 15 s, so everything is ready before they begin.
        bob.expected = {409}
        bob.page.locator(REASON_FIELD).fill("bob, too")
        ann.page.locator(REASON_FIELD).fill("ann looks into it")
        ann.page.locator(SEND).click()
        ann.page.locator(".toast.good", has_text="paused").wait_for()
        bob.page.locator(SEND).click()
        bob.page.locator(ALERT).first.wait_for()
        said = " ".join(bob.page.locator(ALERT).all_inner_texts())
        if "operator" not in said:
            yield f"the second person is not told who has paused it: {said}"
        bob.page.locator(SEND).click()
        bob.page.locator(".toast.good", has_text="paused").wait_for()
        ann.page.locator(".toast button", has_text="Undo").click()
        ann.page.locator(".toast", has_text="Undone").wait_for()
        yield from ann.complaints() + bob.complaints()

    visit.judge("two operators pause a queue at once, and the second one is asked", find, bob)
    ann.close()
    bob.close()


def session_ends(visit):
    """A session ends while somebody types: the login comes over the page, what they typed is kept, and the action goes on."""
    watch = visit.watch()

    def find():
        page = watch.page
        yield from watch.open("/")
        palette(watch, "Pause", "mail")
        reason = page.locator(REASON_FIELD)
        reason.fill("typed before the session ended")
        watch.expected = {401}
        page.context.clear_cookies()
        page.locator("#login-password").wait_for()
        yield from visit.axe.findings(page)
        page.locator("#login-password").fill(visit.stage.people["admin"])
        page.keyboard.press("Enter")
        page.locator("#login-password").wait_for(state="detached")
        if reason.input_value() != "typed before the session ended":
            yield f"what was typed is lost: {reason.input_value()!r}"
        page.locator(SEND).click()
        page.locator(".toast.good").wait_for()
        page.locator(".toast button", has_text="Undo").click()
        page.locator(".toast", has_text="Undone").wait_for()
        yield from watch.complaints()

    visit.judge("a session ends: the login comes over the page, and nothing typed is lost", find, watch)
    watch.close()


