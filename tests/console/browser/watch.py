"""A window of the console, and everything that goes wrong in it: errors, requests to other hosts, dialogs, and what does not fit."""

from urllib.parse import urlsplit

# How long a page may take on a busy machine.
PATIENCE_MS = 60_000

# Counts the requests that wait for an answer, and keeps how long the browser was busy without a pause.
COUNTED = """
(() => {
  const seen = (window.streamfleetSeen = { asked: 0, long: [], figuresMs: null });
  const send = window.fetch;
  window.fetch = (...given) => {
    // Whoever follows a job asks for its end, and waits.
    if (/[?&]wait=/.test(given[0].url ?? given[0])) return send(...given);
    seen.asked += 1;
    return send(...given).finally(() => (seen.asked -= 1));
  };
  const took = (list) => seen.long.push(...list.getEntries().map((entry) => Math.round(entry.duration)));
  new PerformanceObserver(took).observe({ type: 'longtask' });
  const look = () => {
    if (document.querySelector('main tbody tr')) seen.figuresMs = Math.round(performance.now());
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})();
"""

# Waits until no request is open and the page has stayed the same for some frames. Returns false if it never does.
SETTLED = """
() => new Promise((done) => {
  const began = performance.now();
  let last = '', same = 0;
  const look = () => {
    const { scrollWidth, lang, dataset } = document.documentElement;
    const now = [document.body.innerText, scrollWidth, lang, dataset.theme].join();
    same = now === last && window.streamfleetSeen.asked === 0 && document.querySelector('h1') ? same + 1 : 0;
    last = now;
    if (same === 4 || performance.now() - began > 20_000) done(same === 4);
    else requestAnimationFrame(look);
  };
  look();
})
"""

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
  const named = wide.slice(0, 5).map((one) => one.outerHTML.slice(0, 160));
  return [`it is ${document.scrollingElement.scrollWidth} pixels wide instead of ${width}`, ...named];
}
"""

# What a hostile payload becomes if a page takes it for HTML, and what it does to the text around it unless its element keeps it apart.
PLANTED = """
() => {
  const planted = [...document.querySelectorAll('img[src="x"], script:not([src]), [onerror], [onclick], [onload], style')];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const loose = [];
  while (texts.nextNode()) {
    const at = texts.currentNode.parentElement;
    if (/[\\u202a-\\u202e\\u2066-\\u2069]/.test(texts.currentNode.data) && !at.closest('.foreign, textarea, title')) loose.push(at);
  }
  const uneven = [...document.querySelectorAll('body *')].filter((one) => getComputedStyle(one).fontVariantNumeric !== 'tabular-nums').slice(0, 3);
  return [
    ...uneven.map((one) => `digits of different widths: ${one.outerHTML.slice(0, 120)}`),
    ...planted.map((one) => `it has an element that it must not have: ${one.outerHTML.slice(0, 120)}`),
    ...loose.map((one) => `foreign text outside the class foreign: ${one.outerHTML.slice(0, 120)}`),
  ];
}
"""


class Watch:
    """A page that is watched. `complaints` has what went wrong since it was last asked."""

    def __init__(self, context, origin):
        self.page, self.origin, self._complaints = context.new_page(), origin, []
        # The statuses of answers that are expected now, besides those of success.
        self.expected = set()
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.add_init_script(COUNTED)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self._complaints.append(f"a script failed: {error}"))
        self.page.on("dialog", self._dialog)
        self.page.on("request", self._request)
        self.page.on("response", self._response)

    def close(self):
        """Closes the window, and forgets its session."""
        self.page.context.close()

    def complaints(self):
        """Returns what went wrong, and forgets it."""
        found, self._complaints = self._complaints, []
        return found

    def open(self, path, *expected):
        """Opens a page, of which answers of the API may have these statuses. Returns what is wrong with it, apart from how it looks."""
        self.complaints()
        self.expected = set(expected)
        answer = self.page.goto(self.origin + path, wait_until="load")
        if answer is None or answer.status != 200:
            return [f"the status is {answer and answer.status}", *self.complaints()]
        return self.settle() + self.complaints() + self.content()

    def settle(self):
        """Waits until the page has what it asked for. Returns a complaint if it never comes to rest."""
        return [] if self.page.evaluate(SETTLED) else ["it does not come to rest"]

    def content(self):
        """Returns what is wrong with the content of the open page."""
        found = self.page.evaluate(PLANTED)
        headings = self.page.locator("h1").count()
        if "streamfleet" not in self.page.title() or headings != 1:
            found.append(f"its title is {self.page.title()!r}, and it has {headings} headings of level 1")
        return found

    def overflow(self):
        """Returns what reaches beyond the right edge of the window."""
        return self.page.evaluate(OVERFLOWING)

    def seen(self):
        """Returns when the first figures were on the screen, and the long tasks since this was last asked, in milliseconds."""
        seen = self.page.evaluate("() => ({ ...window.streamfleetSeen, long: window.streamfleetSeen.long.splice(0) })")
        return seen["figuresMs"], seen["long"]

    def _console(self, message):
        # Chromium also reports an answer that is expected to fail.
        if message.type in ("error", "warning") and not (self.expected and "Failed to load resource" in message.text):
            self._complaints.append(f"an {message.type} in the browser: {message.text[:300]}")

    def _dialog(self, dialog):
        self._complaints.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request):
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob") and f"{address.scheme}://{address.netloc}" != self.origin:
            self._complaints.append(f"a request to another host: {request.url[:200]}")

    def _response(self, response):
        if response.status >= 400 and response.status not in self.expected:
            self._complaints.append(f"{response.request.method} {response.url[:200]} got {response.status}")
