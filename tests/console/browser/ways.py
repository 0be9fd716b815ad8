"""Ways through the console: the palette, keys, what changes while one looks, and preferences."""

import re

from .pages import CONSOLE

NAVIGATION = re.compile(r"\{ path: '([^']*)',.*keys: '(g \w)'")
SIDEBAR = "aside nav"


def palette(watch, verb, what):
    """Opens the command palette, and runs the command that does this with that."""
    watch.page.keyboard.press("Control+K")
    watch.page.locator("#commands li").first.wait_for()
    watch.page.keyboard.type(f"{verb} {what}")
    watch.page.locator("#commands li", has_text=re.compile(f"^\\s*{re.escape(verb)}.*{re.escape(what)}")).first.click()


def search(hands):
    """The palette finds a job by its id, by keyboard."""
    found, page = hands.open("/"), hands.page
    page.keyboard.press("Control+K")
    page.locator("#commands li").first.wait_for()
    page.keyboard.type("order-17")
    page.keyboard.press("Enter")
    page.locator("main", has_text="order-17").wait_for()
    hands.watch.settle()
    if "order-17" not in page.url:
        found.append(f"it leads to {page.url}")
    return found + hands.watch.complaints()


def keys(hands):
    """Shortcuts, and the link that skips the navigation."""
    found, page = hands.open("/"), hands.page
    page.keyboard.press("Tab")
    if page.evaluate("() => document.activeElement.getAttribute('href')") != "#main":
        found.append("the first Tab does not lead to the link that skips the navigation")
    page.keyboard.press("Enter")
    if page.evaluate("() => document.activeElement.id") != "main":
        found.append("the link does not lead to the page")
    page.keyboard.press("?")
    page.locator("dialog[open]").wait_for()
    page.keyboard.press("Escape")
    page.locator("dialog[open]").wait_for(state="detached")
    for path, chord in NAVIGATION.findall((CONSOLE / "src/shell/pages.ts").read_text(encoding="utf-8")):
        for key in chord.split():
            page.keyboard.press(key)
        # Nothing is waited for: an address changes at once.
        if page.evaluate("() => location.pathname") != f"/{path}":
            found.append(f"{chord} leads to {page.url}, not to /{path}")
        hands.watch.settle()
    page.go_back()
    return found + hands.watch.complaints()


def rows(hands):
    """j and k go from row to row, x chooses one, Enter opens it, and Back leads to the list."""
    found, page = hands.open("/jobs?queue=orders&state=scheduled"), hands.page
    links = page.locator("main tbody tr:not(.gap) td a.mono").evaluate_all("links => links.map((link) => link.href)")
    if len(links) < 3:
        return [*found, f"the list has too few rows: {links}"]
    for key in "jjjkx":
        page.keyboard.press(key)
    at = page.locator("main tbody tr.current a.mono").evaluate("link => link.href")
    if at != links[1]:
        found.append(f"j j j k lead to {at}, not to {links[1]}")
    if not page.locator("main tbody tr.current input[type='checkbox']").is_checked():
        found.append("x does not choose the row")
    page.keyboard.press("Enter")
    page.locator("main h1").wait_for()
    if page.url != links[1]:
        found.append(f"Enter leads to {page.url}, not to {links[1]}")
    page.go_back()
    page.locator("main tbody tr:not(.gap)").first.wait_for()
    return found + hands.watch.complaints()


def live(hands):
    """A page shows a job that was submitted while it was open."""
    found, page = hands.open("/"), hands.page
    before = page.locator("main tr", has_text="imports").first.inner_text()
    hands.stage.streamfleet("enqueue", "order.import", '{"customer": 9}', "--queue", "imports", "--id", "import-live")
    page.wait_for_function("before => ![...document.querySelectorAll('main tr')].some((row) => row.innerText === before)", arg=before)
    return found + hands.watch.complaints()


def preferences(hands):
    """Theme and language change at once, and stay."""
    found, page = hands.open("/gates"), hands.page
    root = page.locator("html")
    for attribute, value in (("data-theme", "dark"), ("lang", "zh-CN"), ("lang", "en"), ("data-theme", "light")):
        page.locator("aside .who").click()
        chosen = f"button[lang='{value}']" if attribute == "lang" else f"button >> nth={('system', 'light', 'dark').index(value)}"
        page.locator(f"aside [popover] {chosen}").click()
        page.wait_for_function(f"() => document.documentElement.getAttribute('{attribute}') === '{value}'")
        page.keyboard.press("Escape")
        page.reload()
        hands.watch.settle()
        if root.get_attribute(attribute) != value:
            found.append(f"{attribute} is not {value} after the page was loaded again")
    if not page.url.endswith("/gates"):
        found.append(f"the choice leads to {page.url}")
    return found + hands.watch.complaints()


def log_out(hands):
    """Whoever has logged out sees nothing."""
    found, page = hands.open("/"), hands.page
    hands.watch.expected = {401}
    page.locator("aside .who").click()
    hands.button("person.log_out", "aside [popover]").click()
    page.locator("#login-name").wait_for()
    page.goto(hands.watch.origin + "/jobs", wait_until="load")
    page.locator("#login-name").wait_for()
    if page.locator("main tbody tr").count():
        found.append("pages are shown without a login")
    return found
