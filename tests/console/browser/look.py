"""Looks at every page: that it fits, that it has no errors, that everybody can use it, and where its links lead."""

import itertools
import re

from . import pages

WIDTHS = {360: 740, 768: 1024, 1440: 900, 2560: 1440}
THEMES = ("light", "dark")
LANGUAGES = {"en": "en-US", "zh-CN": "zh-CN"}
# The tabs of a page, which are addresses of their own.
TABS = "() => [...document.querySelectorAll('main nav a[href*=\"?\"]')].map((link) => link.pathname + link.search)"
LINKS = "() => [...document.querySelectorAll('a[href]')].map((link) => link.href)"


def windows(visit):
    """Returns a window for each language."""
    return {language: visit.watch(locale=locale) for language, locale in LANGUAGES.items()}


def look(visit, addresses):
    """
    Opens every page in both languages, and looks at it at each width and in each theme. In a hurry, a page is opened once, at two widths, and
    the pages take turns at the languages and themes. Returns the links of all pages, each with the page that has it.
    """
    opened, links, known = windows(visit), {}, pages.patterns()
    # The tabs of a kind of page are looked at once. They are found while pages are looked at, which then go on.
    tabs, have = [], {kind(known, address) for address in addresses}
    for number, path in enumerate(itertools.chain(addresses, tabs)):
        turns = list(opened.items())
        chosen = [turns[number % len(turns)]] if visit.is_quick else turns
        shapes = list(itertools.product(WIDTHS, THEMES))
        if visit.is_quick:
            shapes = [(360, THEMES[number // 2 % 2]), (1440, THEMES[(number // 2 + 1) % 2])]

        def find(path=path, chosen=chosen, shapes=shapes):
            for language, watch in chosen:
                for each in seen(visit, watch, path, shapes):
                    yield f"{language} {each}"
                if watch.page.evaluate("() => document.documentElement.lang") != language:
                    yield f"the language is not {language}"
                for link in watch.page.evaluate(LINKS):
                    links.setdefault(link.partition("#")[0], path)
                for tab in watch.page.evaluate(TABS):
                    if tab.partition("?")[0] == path.partition("?")[0] and kind(known, tab) not in have:
                        have.add(kind(known, tab))
                        tabs.append(tab)

        count = len(chosen) * len(shapes)
        visit.judge(f"{path}: {count} windows: no error, no overflow, accessible", find, chosen[0][1])
    for watch in opened.values():
        watch.close()
    return links


def seen(visit, watch, path, shapes):
    """Yields what is wrong with a page in windows of these shapes."""
    width, theme = shapes[0]
    shape(watch, width, theme)
    for each in watch.open(path, *expected(path)):
        yield f"{width} {theme}: {each}"
    for number, (width, theme) in enumerate(shapes):
        if number:
            shape(watch, width, theme)
            # The page is told about another theme a little later.
            watch.page.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)
        found = watch.settle() if number else []
        for each in [*found, *watch.overflow(), *visit.axe.findings(watch.page), *watch.complaints()]:
            yield f"{width} {theme}: {each}"


def expected(path):
    """Returns the statuses that answers of the API may have on a page about something that does not exist, or that only the history has."""
    return (404,) if "nobody" in path or "/jobs/forgotten" in path else ()


def shape(watch, width, theme):
    watch.page.set_viewport_size({"width": width, "height": WIDTHS[width]})
    watch.page.emulate_media(color_scheme=theme)


def kind(known, address):
    """Returns the page of an address, as the table has it, with its query; no page if nothing matches."""
    path, _, query = address.partition("?")
    return next((name for name, pattern in known.items() if pattern.fullmatch(path)), None), query


def links_lead(visit, links):
    """Every link leads to a page of the table or to an answer of the API. Of each kind of link, one is followed."""
    known, origin = pages.patterns(), visit.stage.url
    watch = visit.watch()

    def find():
        followed = {}
        for link, path in links.items():
            address = link.removeprefix(origin)
            if not address.startswith("/"):
                yield f"{path} leads elsewhere: {link}"
                continue
            page, query = kind(known, address)
            if page is None and not address.startswith("/api/"):
                yield f"{path} leads to {address}, which is no page"
            # Pages without a query have been looked at.
            elif query or page is None:
                followed.setdefault((page or re.sub(r".*/", "", address), re.sub(r"=[^&]*", "", query)), (address, path))
        for address, path in followed.values():
            if address.startswith("/api/"):
                status = watch.page.context.request.get(origin + address).status
                found = [f"its status is {status}"] if status >= 400 else []
            else:
                found = watch.open(address, *expected(address))
            for each in found:
                yield f"{path} leads to {address}: {each}"

    visit.judge(f"{len(links)} links of all pages lead to pages", find, watch)
    watch.close()


# A mistake that is stronger than the style sheet.
UNEVEN = "main.style.setProperty('font-variant-numeric', 'normal', 'important')"
# What mistakes are made of.
MATERIAL = """
  const main = document.querySelector('main'), wide = document.createElement('div');
  wide.style.width = '900px';
  wide.style.height = '1px';
"""


def can_fail(visit):
    """Puts mistakes into a page, each of which must be found."""
    watch = visit.watch(360)
    for what, words, mistake, find in [
        ("a page that is too wide", "pixels wide", "document.body.append(wide)", watch.overflow),
        ("a picture without a text", "image-alt", "main.append(new Image())", lambda: visit.axe.findings(watch.page)),
        ("a script that fails", "a script failed", "setTimeout(() => nothing.at.all())", watch.complaints),
        ("an error in the browser", "an error in the browser", "console.error('no')", watch.complaints),
        ("a style inline", "an error in the browser", "main.innerHTML += '<p style=\"color: red\">no</p>'", watch.complaints),
        ("a handler in markup", "must not have", "main.innerHTML += '<b onerror=\"no()\">no</b>'", watch.content),
        ("figures that do not stand in columns", "digits of different widths", UNEVEN, watch.content),
        ("foreign text that turns others", "outside the class foreign", "main.append('\\u202eno')", watch.content),
        ("a request to another host", "localhost:1", "fetch('http://localhost:1/').catch(() => 0)", watch.complaints),
        ("an answer that fails", "got 404", "fetch('/api/v1/queues/orders/jobs/nobody')", watch.complaints),
    ]:
        watch.open("/gates")
        watch.page.evaluate(f"() => {{ {MATERIAL} {mistake}; }}")
        visit.lines.refused(what, words, visit.sooner(watch, words, find))
    watch.close()


def without_scripts(visit):
    """A browser that runs no scripts is told what does the same."""
    context = visit.browser.new_context(java_script_enabled=False)

    def find():
        page = context.new_page()
        page.goto(visit.stage.url + "/")
        text = page.locator("body").inner_text()
        if "streamfleet queues" not in text:
            yield f"it reads: {text[:200]}"

    visit.judge("without scripts, the console names the commands", find)
    context.close()


def paint(visit):
    """Saves the pictures of the documentation, for desks and phones, light and dark."""
    every = pages.Pages(visit.stage, is_twisted=False)
    for name, (path, values) in pages.PICTURES.items():
        for width, height in ((1440, 900), (390, 844)):
            for theme in THEMES:
                watch = visit.watch(width, theme, height=height)
                complaints = watch.open(every.address(path, values))
                watch.page.screenshot(path=visit.folders.pictures / f"console-{name}-{width}-{theme}.png")
                visit.lines.judge(f"picture: console-{name}-{width}-{theme}.png", complaints)
                watch.close()
