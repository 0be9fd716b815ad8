"""A page of the console, and everything that goes wrong in it: errors, requests to other hosts, dialogs, and what does not fit."""

from urllib.parse import urlsplit

# The largest page, in bytes.
MOST_BYTES = 150 * 1024
# How long a page may take to load on a busy machine.
PATIENCE_MS = 60_000

# The elements that reach beyond the right edge, unless something around them scrolls.
OVERFLOWING = """
() => {
  const width = document.documentElement.clientWidth;
  const scrolls = (element) => {
    for (let at = element.parentElement; at && at !== document.body; at = at.parentElement) {
      if (/auto|scroll|hidden|clip/.test(getComputedStyle(at).overflowX)) return true;
    }
    return false;
  };
  if (document.scrollingElement.scrollWidth <= width) return [];
  const wide = [...document.body.querySelectorAll('*')].filter((one) => one.getBoundingClientRect().right > width + 1 && !scrolls(one));
  const named = wide.slice(0, 5).map((one) => one.outerHTML.slice(0, 120));
  return [`it is ${document.scrollingElement.scrollWidth} pixels wide instead of ${width}`, ...named];
}
"""

# What a hostile payload becomes if a page takes it for HTML, and what the page must not have of its own.
PLANTED = """
() => [...document.querySelectorAll('img[src="x"], script:not([src]), [onerror], [onclick], [onload], style, [style]')]
  .map((one) => one.outerHTML.slice(0, 120))
"""


class Watch:
    """A page that is watched. `complaints` has what went wrong since it was last asked."""

    def __init__(self, context, origin):
        self.page, self.origin, self._complaints, self._expected = context.new_page(), origin, [], 200
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self._complaints.append(f"a script failed: {error}"))
        self.page.on("dialog", self._dialog)
        self.page.on("request", self._request)
        self.page.on("response", self._response)

    def complaints(self):
        """Returns what went wrong, and forgets it."""
        found, self._complaints = self._complaints, []
        return found

    def open(self, path, status=200):
        """Opens a page. Returns what is wrong with it, apart from how it looks."""
        self.complaints()
        self._expected = status
        answer = self.page.goto(self.origin + path, wait_until="load")
        if answer is None or answer.status != status:
            return [f"the status is {answer and answer.status}, not {status}", *self.complaints()]
        size = len(answer.body())
        if size > MOST_BYTES:
            self._complaints.append(f"it has {size} bytes, more than {MOST_BYTES}")
        return self.complaints() + self.content()

    def content(self):
        """Returns what is wrong with the content of the open page."""
        found = [f"it has an element that it must not have: {each}" for each in self.page.evaluate(PLANTED)]
        if not self.page.title().strip() or self.page.locator("h1").count() != 1:
            found.append(f"its title is {self.page.title()!r}, and it has {self.page.locator('h1').count()} headings of level 1")
        return found

    def overflow(self):
        """Returns what reaches beyond the right edge of the window."""
        return self.page.evaluate(OVERFLOWING)

    def _console(self, message):
        # Chromium also reports a page that is expected not to exist.
        if message.type == "error" and not (self._expected >= 400 and "Failed to load resource" in message.text):
            self._complaints.append(f"an error in the browser: {message.text[:300]}")

    def _dialog(self, dialog):
        self._complaints.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request):
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob") and f"{address.scheme}://{address.netloc}" != self.origin:
            self._complaints.append(f"a request to another host: {request.url[:200]}")

    def _response(self, response):
        if response.status >= 400 and response.status != self._expected:
            self._complaints.append(f"{response.request.method} {response.url[:200]} got {response.status}")
