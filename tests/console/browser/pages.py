"""Every page of the console, with what the stage has. The pages are those of `console/src/shell/pages.ts`, so that no new one is forgotten."""

import json
import pathlib
import re
from urllib.parse import quote

from proof.process import Wrong

CONSOLE = pathlib.Path(__file__).parents[3] / "console"
# A page of the table: its path, and what loads it.
PAGE = re.compile(r"\{ path: '([^']*)', load: (\w+)")
NAMED = re.compile(r":(\w+)")

# Further addresses of a page, besides that of MAIN.
MORE = {
    "jobs": ["?state=dead", "?queue=mail&where=payload.to%3Dann3%40example.com", "?id_prefix=nobody-has-it", "?state=done&type=order.import"],
    "queues/:queue": [{"queue": "mail"}, {"queue": "imports"}],
    "queues/:queue/jobs/:job": [
        {"job": "report-november"},
        {"job": "later-5"},
        {"job": "sync-1"},
        {"job": "payment-2"},
        {"job": "nobody-has-it"},
        {"job": "forgotten-1"},
        {"queue": "mail", "job": "mail-3"},
        {"queue": "mail", "job": "hostile-1"},
        {"queue": "mail", "job": "hostile-2"},
    ],
    "queues/:queue/dead": [{"queue": "mail"}],
    "queues/:queue/history": ["?state=dead", "?key=customer%3D2&since=1d", "?id=nobody-has-it", {"queue": "mail"}],
    "queues/:queue/history/:job": [{"queue": "mail", "job": "mail-3"}, {"job": "nobody-has-it"}, {"job": "forgotten-1"}],
}


def table():
    """Returns the paths of all pages."""
    paths = PAGE.findall((CONSOLE / "src/shell/pages.ts").read_text(encoding="utf-8"))
    if not paths:
        raise Wrong("console/src/shell/pages.ts has no line `{ path: '…', load: …`")
    return [path for path, _ in paths]


def patterns():
    """Returns an expression for each page, which matches its addresses."""
    return {path: re.compile("/" + NAMED.sub("[^/]+", path)) for path in table()}


class Pages:
    """The addresses of all pages. What is not listed here, such as tabs, is found by its links."""

    def __init__(self, stage, is_twisted=True):
        letters = {each["id"]: each for queue in ("mail", "orders") for each in listed(stage, "dead", "list", "--queue", queue)}
        sent, charged = letters["mail-3"], letters["payment-2"]
        worker = listed(stage, "workers")[0]["consumer"]
        task = listed(stage, "tasks", "list", "--queue", "mail")[0]["id"]
        self._main = {"queue": "orders", "job": "order-3", "worker": worker, "incident": stage.incidents()["dead_group"]}
        self._of_mail = {"queue": "mail", "group": sent["fingerprint"], "letter": sent["letter"], "task": task}
        self._more = {**MORE, "queues/:queue/dead/:letter": [{"queue": "orders", "letter": charged["letter"]}]}
        if is_twisted:
            twisted, malformed = letters["hostile-2"], next(each for each in letters.values() if each["kind"] == "malformed")
            self._more["queues/:queue/dead/groups/:group"] = [{"group": twisted["fingerprint"]}]
            self._more["queues/:queue/dead/:letter"] += [{"letter": each["letter"]} for each in (twisted, malformed)]

    def address(self, path, values=()):
        """Returns an address of a page. It names these values, and otherwise those of the stage."""
        names = NAMED.findall(path)
        known = {**self._main, **(self._of_mail if {*names} & {"group", "letter", "task"} else {}), **dict(values)}
        missing = [name for name in names if name not in known]
        if missing:
            raise Wrong(f"the stage has nothing for {missing} of the page {path}: see tests/console/browser/pages.py")
        return "/" + NAMED.sub(lambda name: quote(known[name[1]], safe=""), path)

    def every(self):
        """Returns the addresses of all pages."""
        found = []
        for path in table():
            found.append(self.address(path))
            for each in self._more.get(path, ()):
                found.append(self.address(path) + each if isinstance(each, str) else self.address(path, each))
        return found


def listed(stage, *words):
    """Returns what a command of the program lists."""
    return json.loads(stage.streamfleet(*words, "-o", "json"))["items"]


# The pictures of the documentation: the name, the page, and what of its path is not that of the stage's main values.
PICTURES = {
    "overview": ("", {}),
    "jobs": ("jobs", {}),
    "queue": ("queues/:queue", {}),
    "job": ("queues/:queue/jobs/:job", {"job": "report-november"}),
    "decision": ("queues/:queue/jobs/:job", {"job": "payment-2"}),
    "group": ("queues/:queue/dead/groups/:group", {}),
}
