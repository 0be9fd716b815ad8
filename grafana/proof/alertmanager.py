"""A real Alertmanager with the example's routes, and somebody who is told."""

import http.server
import json
import re
import threading
import urllib.request

from .process import answers, until


class Listener:
    """Takes what Alertmanager posts."""

    def __init__(self):
        self.posts = posts = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                posts.append((self.path, json.loads(self.rfile.read(int(self.headers["content-length"])))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def start(programs, command, port, example, listener):
    """Runs the example, with waits of seconds and with an address that exists."""
    config = re.sub(r"http://([\w-]+)\.example\.internal/alerts", rf"{listener.address}/\1", example.read_text())
    config = re.sub(r"group_wait: \d+s", "group_wait: 5s", config)
    path = programs.folder / "alertmanager.yml"
    path.write_text(config)
    options = [f"--storage.path={programs.folder}/alertmanager", f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="]
    programs.start("alertmanager", [command, f"--config.file={path}", *options])
    until("alertmanager", lambda: answers(port))
    return f"127.0.0.1:{port}"


# What is kept quiet because something worse explains it, and what is not: (alert, severity, queue), each in a namespace of its own.
QUIET = [
    (("RedisUnreachable", "critical", ""), [("NoLeader", "critical", "a")], [("RedisUnreachable", "critical", "")]),
    (("NoWorker", "critical", "a"), [("QueueAbandoned", "warning", "a")], [("QueueAbandoned", "warning", "b")]),
    (("NoLeader", "critical", "a"), [("CronLate", "warning", "a")], [("CronLate", "warning", "b"), ("BacklogAge", "critical", "a")]),
    (("BacklogAge", "critical", "a"), [("BacklogAge", "warning", "a")], [("BacklogAge", "warning", "b")]),
]


def kept_quiet(address):
    """What the example's inhibitions do not do as they should."""
    for number, (source, quiet, loud) in enumerate(QUIET):
        namespace = f"lab-{number}"
        post(address, [labels(namespace, each) for each in [source, *quiet, *loud]])
        with urllib.request.urlopen(f"http://{address}/api/v2/alerts?filter=namespace={namespace}", timeout=10) as answer:
            states = {json.dumps(each["labels"], sort_keys=True): each["status"]["state"] for each in json.load(answer)}
        for each, suppressed in [(each, True) for each in quiet] + [(each, False) for each in [source, *loud]]:
            state = states.get(json.dumps(labels(namespace, each), sort_keys=True))
            if (state == "suppressed") != suppressed:
                yield f"{each} is {state} while there is {source}"


def labels(namespace, alert):
    """The labels of an alert; no queue is no label."""
    name, severity, queue = alert
    made = {"alertname": f"Streamfleet{name}", "severity": severity, "namespace": namespace}
    return {**made, "queue": queue} if queue else made


def post(address, every):
    """Has Alertmanager know of alerts."""
    body = json.dumps([{"labels": each} for each in every]).encode()
    request = urllib.request.Request(f"http://{address}/api/v2/alerts", body, {"content-type": "application/json"})
    urllib.request.urlopen(request, timeout=10).close()


def told(listener, alert, queues):
    """What is wrong with how it was told: one post, to whoever is on call, with an alert for each of the queues."""
    about = [(path, post) for path, post in listener.posts if post["commonLabels"].get("alertname") == alert]
    for path, post in about:
        if path != "/on-call":
            yield f"a post to {path}"
        if post["version"] != "4" or not post["commonAnnotations"].get("runbook_url"):
            yield f"not what Alertmanager 4 posts: {post}"
    found = sorted(each["labels"]["queue"] for _, post in about for each in post["alerts"])
    if len(about) != 1 or found != sorted(queues):
        yield f"{len(about)} posts, about {found}, and not one about {sorted(queues)}"
