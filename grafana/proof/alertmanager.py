"""A real Alertmanager with the example's routes, and a receiver of its notifications."""

import http.server
import json
import re
import threading
import urllib.request

from .process import answers, until


class Listener:
    """Receives what Alertmanager posts."""

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
    """Runs the example, with short waits and with the address of the listener. Returns its own address."""
    config = re.sub(r"http://([\w-]+)\.example\.internal/alerts", rf"{listener.address}/\1", example.read_text())
    config = re.sub(r"group_wait: \d+s", "group_wait: 5s", config)
    path = programs.folder / "alertmanager.yml"
    path.write_text(config)
    options = [f"--storage.path={programs.folder}/alertmanager", f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="]
    programs.start("alertmanager", [command, f"--config.file={path}", *options])
    until("alertmanager", lambda: answers(port))
    return f"127.0.0.1:{port}"


# A source alert, the alerts that it must mute, and those that it must not: (alert, severity, queue). Each row has its own namespace.
QUIET = [
    (("RedisUnreachable", "critical", ""), [("NoLeader", "critical", "a")], [("RedisUnreachable", "critical", "")]),
    (("NoWorker", "critical", "a"), [("QueueAbandoned", "warning", "a")], [("QueueAbandoned", "warning", "b")]),
    (("NoLeader", "critical", "a"), [("CronLate", "warning", "a")], [("CronLate", "warning", "b"), ("BacklogAge", "critical", "a")]),
    (("PoolDown", "critical", ""), [("PoolRestarts", "warning", "")], [("TargetDown", "warning", "")]),
    (("BacklogAge", "critical", "a"), [("BacklogAge", "warning", "a")], [("BacklogAge", "warning", "b")]),
]


def muted(address):
    """Yields alerts that the example's inhibitions wrongly mute or do not mute."""
    for number, (source, quiet, loud) in enumerate(QUIET):
        namespace = f"lab-{number}"
        post(address, [labels(namespace, each) for each in [source, *quiet, *loud]])
        with urllib.request.urlopen(f"http://{address}/api/v2/alerts?filter=namespace={namespace}", timeout=10) as answer:
            states = {json.dumps(each["labels"], sort_keys=True): each["status"]["state"] for each in json.load(answer)}
        for each, suppressed in [(each, True) for each in quiet] + [(each, False) for each in [source, *loud]]:
            state = states.get(json.dumps(labels(namespace, each), sort_keys=True))
            if (state == "suppressed") != suppressed:
                yield f"{each} is {state} while {source} is active"


def labels(namespace, alert):
    """Returns the labels of an alert. An empty queue has no label."""
    name, severity, queue = alert
    made = {"alertname": f"Streamfleet{name}", "severity": severity, "namespace": namespace}
    return {**made, "queue": queue} if queue else made


def post(address, every):
    """Sends alerts to Alertmanager."""
    body = json.dumps([{"labels": each} for each in every]).encode()
    request = urllib.request.Request(f"http://{address}/api/v2/alerts", body, {"content-type": "application/json"})
    urllib.request.urlopen(request, timeout=10).close()


def notified(listener, alert, queues):
    """Yields what is wrong with the notification. There must be one post, to the person on call, with an alert for each queue."""
    about = [(path, post) for path, post in listener.posts if post["commonLabels"].get("alertname") == alert]
    for path, post in about:
        if path != "/on-call":
            yield f"posted to {path}, not to /on-call"
        if post["version"] != "4" or not post["commonAnnotations"].get("runbook_url"):
            yield f"the post is not of version 4, or has no runbook_url: {post}"
    found = sorted(each["labels"]["queue"] for _, post in about for each in post["alerts"])
    if len(about) != 1 or found != sorted(queues):
        yield f"{len(about)} posts about {found}, but expected one about {sorted(queues)}"
