"""python3 -m browser PROGRAM REDIS-SERVER CHROMIUM AXE [--quick] [--large N] [--situations N] [--pictures FOLDER] [--failures FOLDER]: uses
the console as people do, in a real Chromium, with a real fleet.

Every page is looked at in two languages, at four widths and in two themes; every action is done through its form; sessions end, Redis goes
and comes back, and many jobs wait. Prints one line per check. The exit code is 1 if a check fails. With --quick, every page is opened once,
and looked at at two widths. With --large, only what depends on the number of jobs is checked, while N of them wait. With --situations, twelve
situations of a night on call are solved while N mails wait, by the console and by `top`. With --pictures, the pictures of the documentation
are saved, and with --failures, a picture of each page that fails.
"""

import argparse
import pathlib
import re
import sys
import tempfile
import time

from playwright.sync_api import Error, sync_playwright

from proof.process import Programs, Wrong
from stage.fleet import Stage
from stage.lines import Lines
from stage.night import Night

from . import actions, large, look, outages, people, situations
from .axe import Axe
from .pages import Pages
from .watch import Watch

# How many jobs wait while the console is checked with many, unless a number is given.
MANY = 20_000


class Visit:
    """A browser, the fleet that it looks at, and the results."""

    def __init__(self, browser, stage, lines, axe, given):
        self.browser, self.stage, self.lines, self.axe, self.folders = browser, stage, lines, axe, given
        self.is_quick = given.quick
        # The sessions of people, by their names.
        self.sessions = {}

    def watch(self, width=1440, theme="light", person="admin", locale="en-US", height=None):
        """Opens a window in which a person is logged in."""
        context = self.browser.new_context(
            viewport={"width": width, "height": height or look.WIDTHS[width]},
            color_scheme=theme,
            locale=locale,
            reduced_motion="reduce",
            storage_state=person and self._session(person),
        )
        return Watch(context, self.stage.url)

    def _session(self, person):
        """Returns the session of a person, who logs in once."""
        if person not in self.sessions:
            context = self.browser.new_context()
            sent = {"name": person, "password": self.stage.people[person]}
            answer = context.request.post(f"{self.stage.url}/api/v1/session", data=sent)
            if answer.status != 204:
                raise Wrong(f"{person} cannot log in: {answer.status} {answer.text()[:300]}")
            self.sessions[person] = context.storage_state()
            context.close()
        return self.sessions[person]

    def judge(self, what, find, watch=None):
        """Passes if `find` returns no complaints. Also if the browser waits in vain, the next check goes on."""
        began = time.monotonic()
        try:
            complaints = list(find())
        except (Error, Wrong) as wrong:
            complaints = [*str(wrong).splitlines()[:6], *(watch.complaints() if watch else [])]
        if not self.lines.judge(f"{what} ({time.monotonic() - began:.1f} s)", complaints) and watch and self.folders.failures:
            name = re.sub(r"[^a-z0-9]+", "-", what.lower()).strip("-")[:80]
            watch.page.screenshot(path=self.folders.failures / f"{name}.png")

    @staticmethod
    def sooner(watch, words, find):
        """Looks for complaints until one has these words, for at most 10 s."""
        found, deadline = list(find()), time.monotonic() + 10
        while not any(words in each for each in found) and time.monotonic() < deadline:
            watch.page.wait_for_timeout(50)
            found += find()
        return found


def check_all(visit):
    """All checks. Those that change what others need come last."""
    if visit.folders.pictures:
        look.paint(visit)
    visit.stage.twist()
    every = Pages(visit.stage)
    people.log_in(visit)
    look.can_fail(visit)
    links = look.look(visit, every.every())
    look.links_lead(visit, links)
    look.without_scripts(visit)
    people.viewer(visit, every)
    people.reader(visit, every)
    people.submitter(visit, every)
    people.two_operators(visit)
    people.session_ends(visit)
    actions.act(visit)
    outages.freeze(visit)
    outages.restart(visit)
    large.check(visit, MANY)


def check(lines, given, folder):
    with Programs(folder) as programs, sync_playwright() as driver:
        try:
            stage = (Night if given.situations else Stage)(programs, given.program.resolve(), given.server)
            if given.situations:
                stage.fill(given.situations)
            elif not given.large:
                stage.fill()
            # Nothing but this machine has an address, so a request elsewhere fails as well as being reported.
            nowhere = "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"
            browser = driver.chromium.launch(executable_path=given.chromium, args=[nowhere, "--font-render-hinting=none"])
            print(f"      Chromium {browser.version}", flush=True)
            visit = Visit(browser, stage, lines, Axe(given.axe), given)
            if given.situations:
                situations.check(visit)
            elif given.large:
                large.check(visit, given.large)
            else:
                check_all(visit)
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
    for name in ("--large", "--situations"):
        parser.add_argument(name, type=int, metavar="N")
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
