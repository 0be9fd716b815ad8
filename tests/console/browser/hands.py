"""Somebody who uses a page: opens the form of an action, fills it, and sends it."""

import pathlib
import re

from proof.process import Wrong

from .pages import CONSOLE

REASON = "the check of the browser"
DRAWER = ".drawer"
# What sends the form, and what it says if it was not done.
SEND = f"{DRAWER} form button:not([type='button'])"
ALERT = f"{DRAWER} form > [role='alert'], {DRAWER} form .wrong"
# The drawer has gone, or says why not.
DONE = f"() => !document.querySelector('{DRAWER}') || document.querySelector(\"{ALERT}\")"
TEXT = re.compile(r"^\s*'([^']+)': (['\"])(.*)\2,?$", re.M)


class Words:
    """The English texts of the console, by their keys: what a button says may change, and checks go on."""

    def __init__(self):
        text = pathlib.Path(CONSOLE / "src/words/en.ts").read_text(encoding="utf-8")
        self._texts = {key: written.replace("\\'", "'") for key, _, written in TEXT.findall(text)}

    def __getitem__(self, key):
        """Returns the text of a key, up to its first value."""
        if key not in self._texts:
            raise Wrong(f"console/src/words/en.ts has no text {key}, for which tests/console/browser looks")
        return self._texts[key].partition("{")[0].partition("|")[0].strip()


class Hands:
    """Somebody who uses a page."""

    def __init__(self, watch, stage):
        self.watch, self.page, self.stage, self.words = watch, watch.page, stage, Words()

    def open(self, path, *expected):
        """Opens a page. Returns what is wrong with it."""
        return self.watch.open(path, *expected)

    def button(self, key, within="main"):
        """Returns the first button or link in a part of the page that begins with a text of the catalogue."""
        text = re.compile("^\\s*" + re.escape(self.words[key]))
        return self.page.locator(within).locator("button, a.button, [role='menuitem']").filter(has_text=text).first

    def menu(self, row, key):
        """Chooses an entry of the menu of a row, or of the page if `row` is empty."""
        scope = self.page.locator("main tbody tr").filter(has_text=row).first if row else self.page.locator("main")
        scope.locator("[aria-haspopup='menu']").first.click()
        self.button(key, "[role='menu']:popover-open").click()

    def send(self, fields=None, by_keyboard=False):
        """
        Fills the form in the drawer and sends it. `fields` has values by selectors, and None by the key of what a button says that is pressed.
        Returns what is wrong with the answer: it must say that it was done.
        """
        self.page.locator(f"{DRAWER} form").wait_for()
        for selector, value in (fields or {}).items():
            if value is None:
                self.button(selector, f"{DRAWER} form").click()
                continue
            field = self.page.locator(f"{DRAWER} {selector}")
            if field.evaluate("field => field.tagName") == "SELECT":
                field.select_option(value)
            elif value is True:
                field.check()
            else:
                field.fill(value)
        reason = self.page.locator(f"{DRAWER} input[maxlength='200']")
        reason.fill(REASON)
        if by_keyboard:
            reason.press("Enter")
        else:
            self.page.locator(SEND).last.click()
        self.page.wait_for_function(DONE)
        said = self.page.locator(ALERT).all_inner_texts()
        toasts = self.page.locator(".toast").all_inner_texts()
        bad = self.page.locator(".toast.bad").all_inner_texts()
        found = [f"it was not done: {' '.join([*said, *bad])[:300]}"] if said or bad else []
        if not toasts:
            found.append("nothing says that it was done")
        found += self.watch.content() + self.watch.complaints()
        if said:
            self.page.keyboard.press("Escape")
        for close in self.page.locator(".toast button.square").all():
            close.click()
        return found

    def undo(self):
        """Takes the last action back by its toast. Returns what is wrong with it."""
        self.page.locator(".toast button", has_text=self.words["toast.undo"]).first.click()
        self.page.locator(".toast", has_text=self.words["toast.undone"]).wait_for()
        return self.watch.complaints()

    def act(self, path, key, fields=None, within="main", by_keyboard=False, expected=()):
        """Opens a page and one of its forms, and sends it. Answers of the API may have the statuses `expected`."""
        found = self.open(path, *expected)
        button = self.button(key, within)
        if by_keyboard:
            button.focus()
            self.page.keyboard.press("Enter")
        else:
            button.click()
        return found + self.send(fields, by_keyboard)

    def left(self, queue, state, *ids):
        """Returns which of these jobs are not in this state, although they should be."""
        try:
            for each in ids:
                self.stage.until_job(queue, each, state)
        except Wrong as wrong:
            return [str(wrong)]
        return []
