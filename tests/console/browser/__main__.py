"""python3 -m browser PROGRAM REDIS-SERVER CHROMIUM AXE [--quick] [--pictures FOLDER] [--failures FOLDER]: uses the console as people do, in a
real Chromium, with a real fleet.

Every page is opened at three widths and in both themes, and every action is done through its form. Prints one line per check. The exit code
is 1 if a check fails. With --quick, every page is opened once: the pages take turns at the widths, themes and languages. With --pictures, the
pictures of the documentation are saved. With --failures, a picture of each page that fails.
"""

import argparse
import itertools
import pathlib
import re
import sys
import tempfile
import time

from playwright.sync_api import Error, sync_playwright

from proof.process import Programs, Wrong
from stage.fleet import Stage
from stage.lines import Lines

from . import actions, pages
from .axe import Axe
from .watch import Watch

WIDTHS = {360: 740, 1024: 768, 3840: 2160}
THEMES = ("light", "dark")
# The ends of addresses that change something.
ACTING = re.compile(r"/(cancel|run-now|reschedule|edit|drop|dead-drop|replay|pause|resume|limit|stop|decide|plan)$")
# The most links that are followed. A page shows at most a few hundred, and many of them are the same.
MOST_LINKS = 600


# What mistakes are made of.
MATERIAL = """
  const main = document.querySelector('main'), wide = document.createElement('div');
  wide.style.width = '900px';
  wide.style.height = '1px';
"""


class Visit:
    """A browser, the fleet that it looks at, and the results."""

    def __init__(self, browser, stage, lines, axe, folders):
        self.browser, self.stage, self.lines, self.axe, self.folders = browser, stage, lines, axe, folders
        self.session, self.is_quick = None, folders.quick

    def watch(self, width=1024, theme="light", session=True, **options):
        """Opens a window of this width, logged in if there is a session."""
        context = self.browser.new_context(
            viewport={"width": width, "height": WIDTHS[width]},
            color_scheme=theme,
            locale=options.pop("locale", "en-US"),
            storage_state=self.session if session else None,
            **options,
        )
        return Watch(context, self.stage.url)

    def judge(self, what, find, watch=None):
        """Passes if `find` returns no complaints. Also if the browser waits in vain, the next check goes on."""
        try:
            complaints = list(find())
        except (Error, Wrong) as wrong:
            complaints = [*str(wrong).splitlines()[:6], *(watch.complaints() if watch else [])]
        if not self.lines.judge(what, complaints) and watch and self.folders.failures:
            name = re.sub(r"[^a-z0-9]+", "-", what.lower()).strip("-")[:80]
            watch.page.screenshot(path=self.folders.failures / f"{name}.png", full_page=True)

    # Logging in.

    def log_in(self):
        """Logs in with the keyboard, after a wrong password, and keeps the session for other windows."""
        watch = self.watch()

        def find():
            found = watch.open("/jobs?state=done")
            self._type(watch, "admin", "wrong-password")
            if not watch.page.locator("[role='alert']").count():
                found.append("a wrong password is not reported")
            self._type(watch, "admin", self.stage.people["admin"])
            if not watch.page.url.endswith("/jobs?state=done"):
                found.append(f"the login leads to {watch.page.url}")
            cookies = [each for each in watch.page.context.cookies() if each["name"] == "streamfleet"]
            if not cookies or not cookies[0]["httpOnly"] or cookies[0]["sameSite"] != "Lax":
                found.append(f"the cookie is {cookies}")
            self.session = watch.page.context.storage_state()
            # The wrong password was answered with 422, which the browser reports.
            return [each for each in found + watch.complaints() if "422" not in each]

        self.judge("a person logs in with the keyboard, and a wrong password is refused", find, watch)
        watch.page.context.close()

    @staticmethod
    def _type(watch, name, password):
        watch.page.locator("#name").focus()
        watch.page.keyboard.press("Control+A")
        watch.page.keyboard.type(name)
        watch.page.keyboard.press("Tab")
        watch.page.keyboard.type(password)
        with watch.page.expect_navigation(wait_until="load"):
            watch.page.keyboard.press("Enter")

    # Looking.

    def look(self, addresses, session=True):
        """Opens every page at each width and in each theme, or in a hurry in one of these windows."""
        windows = [(f"{width} {theme}", self.watch(width, theme, session)) for width, theme in itertools.product(WIDTHS, THEMES)]
        for number, (path, status) in enumerate(addresses):
            chosen = [windows[number % len(windows)]] if self.is_quick else windows

            def find(path=path, status=status, chosen=chosen):
                for name, watch in chosen:
                    for each in self._seen(watch, path, status):
                        yield f"{name}: {each}"

            where = chosen[0][0] if self.is_quick else f"{len(chosen)} windows"
            self.judge(f"{path}: {where}: no error, no overflow, accessible", find, chosen[0][1])
        for _, watch in windows:
            watch.page.context.close()

    def _seen(self, watch, path, status):
        yield from watch.open(path, status)
        yield from watch.overflow()
        yield from self.axe.findings(watch.page)
        yield from watch.complaints()

    def can_fail(self):
        """Puts mistakes into a page, each of which must be found."""
        watch = self.watch(360)
        for what, words, mistake, find in [
            ("a page that is too wide", "pixels wide", "document.body.append(wide)", watch.overflow),
            ("a picture without a text", "image-alt", "main.append(Object.assign(new Image(), {src: '/assets/icon.svg'}))", lambda: self.axe.findings(watch.page)),
            ("a script that fails", "a script failed", "setTimeout(() => nothing.at.all())", watch.complaints),
            ("an error in the browser", "an error in the browser", "console.error('no')", watch.complaints),
            ("a style inline", "must not have", "main.append(wide)", watch.content),
            ("a request to another host", "localhost:1", "fetch('http://localhost:1/').catch(() => 0)", watch.complaints),
        ]:
            watch.open("/gates")
            watch.page.evaluate(f"() => {{ {MATERIAL} {mistake}; }}")
            self.lines.refused(what, words, self._sooner(watch, words, find))
        watch.page.context.close()

    @staticmethod
    def _sooner(watch, words, find):
        """Looks for complaints until one has these words, for at most 10 s."""
        found, deadline = list(find()), time.monotonic() + 10
        while not any(words in each for each in found) and time.monotonic() < deadline:
            watch.page.wait_for_timeout(50)
            found += find()
        return found

    def in_chinese(self, addresses):
        """Opens every page in Chinese on a small screen."""
        watch = self.watch(360, "dark", locale="zh-CN")

        def find():
            for path, status in addresses:
                found = watch.open(path, status) + watch.overflow()
                if not (watch.page.locator("html").get_attribute("lang") or "").startswith("zh"):
                    found.append("its language is not Chinese")
                for each in found:
                    yield f"{path}: {each}"

        self.judge(f"{len(addresses)} pages in Chinese: no error, no overflow", find, watch)
        watch.page.context.close()

    def links(self, addresses):
        """Follows every link of every page. A number that can be clicked leads to what it counts, and nothing leads nowhere."""
        watch = self.watch()
        leads = {}
        # A page about an address that leads nowhere has links to itself, in other colours or in another language.
        for path, _ in (each for each in addresses if each[1] < 400):
            watch.open(path, 200)
            for link in watch.page.locator("a[href]").evaluate_all("links => links.map((link) => link.href)"):
                leads.setdefault(link.partition("#")[0], path)

        def find():
            if len(leads) > MOST_LINKS:
                yield f"there are {len(leads)} links, more than the check follows"
            for link, path in itertools.islice(leads.items(), MOST_LINKS):
                if not link.startswith(self.stage.url + "/"):
                    yield f"{path} leads elsewhere: {link}"
                    continue
                answer = watch.page.context.request.get(link, headers={"accept": "text/html"})
                if answer.status >= 400:
                    yield f"{path} leads to {link}, which is {answer.status}"

        self.judge(f"{len(leads)} links of all pages lead to pages", find)
        watch.page.context.close()

    def without_scripts(self):
        """Uses the console in a browser that runs no scripts."""
        watch = self.watch(java_script_enabled=False)
        page = watch.page

        def find():
            for path in ("/", "/queues/orders", "/queues/orders/jobs/order-3", "/queues/mail/dead"):
                answer = page.goto(self.stage.url + path, wait_until="load")
                if answer.status != 200 or not page.locator("h1").count():
                    yield f"{path} is {answer.status}"
            page.goto(self.stage.url + "/queues/orders/jobs/later-6/cancel", wait_until="load")
            page.locator("main form.fields [name='reason']").fill(actions.REASON)
            page.locator("main form.fields .actions button[type='submit']").click()
            page.locator(".message.good").wait_for()
            yield from watch.complaints()

        self.judge("pages and forms work without scripts", find, watch)
        page.context.close()

    def as_viewer(self):
        """Looks with the role of a viewer, who sees no payloads and can do nothing."""
        watch = self.watch(session=False)

        def find():
            yield from watch.open("/login")
            self._type(watch, "viewer", self.stage.people["viewer"])
            for path in ("/", "/queues/mail", "/queues/mail/jobs/mail-3", "/queues/mail/dead", "/queues/orders/jobs/payment-2", "/gates", "/incidents"):
                for each in watch.open(path):
                    yield f"{path}: {each}"
                secret = [word for word in ("ann3@example.com", "hunter2", "mailbox unavailable") if word in watch.page.content()]
                if secret:
                    yield f"{path} shows {secret}"
                leads = watch.page.locator("main a[href]").evaluate_all("links => links.map((link) => link.pathname)")
                for each in filter(ACTING.search, leads):
                    yield f"{path} offers {each}"
            yield from watch.open("/queues/orders/gates/pause", 403)

        self.judge("a viewer sees no payloads, and is offered nothing to do", find, watch)
        watch.page.context.close()

    # Acting.

    def act(self):
        """Does everything that a person can do."""
        watch = self.watch()
        hands = actions.Hands(watch, self.stage)
        for what, action in actions.ALL.items():
            self.judge(what, lambda action=action: action(hands), watch)
        watch.page.context.close()

    def paint(self):
        """Saves the pictures of the documentation."""
        for name, path, width, height, theme in pages.PICTURES:
            window = {"viewport": {"width": width, "height": height}, "color_scheme": theme}
            context = self.browser.new_context(storage_state=self.session, locale="en-US", **window)
            watch = Watch(context, self.stage.url)
            complaints = watch.open(path)
            watch.page.screenshot(path=self.folders.pictures / f"{name}.png")
            self.lines.judge(f"picture: {name}.png", complaints)
            context.close()


def check(lines, given, folder):
    with Programs(folder) as programs, sync_playwright() as driver:
        try:
            stage = Stage(programs, given.program.resolve(), given.server)
            stage.fill()
            # Nothing but this machine has an address, so a request elsewhere fails as well as being reported.
            nowhere = "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"
            browser = driver.chromium.launch(executable_path=given.chromium, args=[nowhere, "--font-render-hinting=none"])
            print(f"      Chromium {browser.version}", flush=True)
            visit = Visit(browser, stage, lines, Axe(given.axe), given)
            visit.look(pages.OPEN, session=False)
            visit.log_in()
            addresses = pages.every(stage)
            visit.can_fail()
            if given.pictures:
                visit.paint()
            visit.look(addresses)
            visit.in_chinese(addresses)
            visit.links(addresses)
            visit.without_scripts()
            visit.as_viewer()
            visit.act()
            browser.close()
            lines.judge("Redis refused nothing to the login of the console", stage.refusals())
        except (Wrong, OSError, Error) as wrong:
            lines.judge("the fleet, its console and the browser", [*str(wrong).splitlines()[:12], *programs.words()])


def main():
    parser = argparse.ArgumentParser(prog="python3 -m browser")
    for name in ("program", "server", "chromium", "axe"):
        parser.add_argument(name, type=pathlib.Path if name == "program" else str)
    for name in ("--pictures", "--failures"):
        parser.add_argument(name, type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    for each in (given.pictures, given.failures):
        if each:
            each.mkdir(parents=True, exist_ok=True)
    lines = Lines()
    with tempfile.TemporaryDirectory() as folder:
        check(lines, given, folder)
    sys.exit(lines.account("browser"))


if __name__ == "__main__":
    main()
