"""A real fleet: a private Redis with the logins of deploy/redis, a worker, the console with accounts, and jobs in every state."""

import json
import math
import pathlib
import shutil
import subprocess
import urllib.error
import urllib.request

from proof.process import Wrong, answers, free_ports, until

from .sink import Sink

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]
CONFIG, ALERTS = HERE / "streamfleet.toml", HERE / "alerts.toml"
# This machine may be busy with other checks.
SOON = 120
# How many dead letters of one kind there are.
DEAD = 12
# What a hostile producer writes. A page that takes it for HTML runs it, which the browser reports.
HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>{{7*7}}'
# What reverses the text around it, what a terminal or a parser takes for a command, and what has no place to break.
TWISTED = f"\u202egnp.live\u2066\u200f {HOSTILE} \x1b[31mred\x07\x01 {'W' * 600}"

# An incident that is over: the real ones last longer than this check.
OVER = {
    "id": "0b5ff10c",
    "kind": "backlog",
    "queue": "orders",
    "state": "resolved",
    "detail": "the oldest job has been waiting for 4m",
    "count": 30,
    "since_ms": 1700000000000,
    "opened_ms": 1700000000000,
    "seen_ms": 1700000060000,
    "resolved_ms": 1700000100000,
    "notices": 2,
}


class Stage:
    """Redis, workers and the console. Every process is in `programs`, which stops them."""

    # What another stage may have instead: its configuration, the handlers of its pools, how many workers it has, and the queues that
    # have a past in charts; and whether ended jobs are written to a database.
    config, handlers, workers, past, has_history = CONFIG, HERE / "handlers.py", 1, ("orders", "mail", "imports"), True

    def __init__(self, programs, program, redis_server):
        self.programs, self.program, self.folder = programs, str(program), programs.folder
        self.redis_cli = redis_server.replace("-server", "-cli")
        self.redis_port, self.port = free_ports(2)
        self.url = f"http://127.0.0.1:{self.port}"
        self.logins, self.people, self.tokens = self.folder / "logins", {}, {}
        self.sink, self._refused = Sink(), []
        self._start_redis(redis_server)
        for queue in self.past:
            self._history(queue)
        if self.has_history:
            self.streamfleet("sql", "migrate")
        shutil.copytree(ROOT / "sdk/python/streamfleet", self.folder / "streamfleet")
        shutil.copy(self.handlers, self.folder)
        for nth in range(1, self.workers + 1):
            self._serve(f"worker-{nth}", "worker", ["worker"], TELEMETRY__LISTEN="off", TELEMETRY__LOG="warn")
        self._accounts()
        self.console = self._serve(
            "console",
            "console",
            ["--config", ALERTS, "console", "--listen", f"127.0.0.1:{self.port}"],
            ALERTS__SINKS__OPS__URL=self.sink.url,
            CONSOLE__ACCOUNTS_FILE=self.logins / "accounts.toml",
            CONSOLE__SESSION_KEY_FILE=self.logins / "session-key",
            CONSOLE__REQUESTS_PER_SECOND="1000",
        )
        until("console", lambda: self.get("/healthz") == 200, SOON)

    # Commands.

    def streamfleet(self, *words, given=None):
        """Runs a command of the program as an operator, and returns its output."""
        command = [self.program, "--config", str(self.config), *words]
        known = {**self._addresses("operator"), "HOME": str(self.folder), "USER": "operator"}
        piped = {"input": given, "capture_output": True, "text": True, "timeout": SOON}
        done = subprocess.run(command, check=False, env=known, cwd=self.folder, **piped)
        if done.returncode:
            raise Wrong(f"streamfleet {' '.join(words)} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def redis(self, *words, given=None):
        """Sends a command to Redis, or several, one per line, as nobody but this stage may."""
        command = [self.redis_cli, "-p", str(self.redis_port), "--no-auth-warning", "--user", "stage", "--pass", "stage", *words]
        return subprocess.run(command, input=given, capture_output=True, text=True, timeout=SOON, check=True).stdout

    def refusals(self):
        """Returns what Redis refused to a login so far. Nothing may be refused, not even what a client ignores."""
        log = self.redis("--json", "ACL", "LOG")
        return self._refused + [f"{each['username']}: {each['reason']}: {each['object']}" for each in json.loads(log)]

    def get(self, path):
        """Returns the status of a page without a login, or None if nothing answers."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as answer:
                return answer.status
        except urllib.error.HTTPError as refused:
            return refused.code
        except OSError:
            return None

    def address(self, login):
        """Returns the address of Redis with a login."""
        return f"redis://{login}:{(self.logins / login).read_text()}@127.0.0.1:{self.redis_port}/0"

    def _addresses(self, login):
        """Returns the settings with the addresses of Redis and of the database."""
        known = {"STREAMFLEET__REDIS__URL": self.address(login)}
        if self.has_history:
            known["STREAMFLEET__HISTORY__URL"] = f"sqlite:{self.folder}/history.db"
        return known

    def ids(self, queue, *states):
        """Returns the jobs of a queue in these states."""
        return self.streamfleet("jobs", "--queue", queue, "--state", ",".join(states), "-o", "name").split()

    def until_state(self, queue, state, count=1):
        """Waits for so many jobs of a queue to be in a state."""
        until(f"{count} jobs of {queue} that are {state}", lambda: len(self.ids(queue, state)) >= count, SOON)

    def until_job(self, queue, job, state):
        """Waits for a job to be in a state."""
        until(f"{job} of {queue} to be {state}", lambda: job in self.ids(queue, state), SOON)

    def incidents(self):
        """Returns the kinds of the open incidents, with the id of one of each."""
        listed = json.loads(self.streamfleet("alerts", "list", "-o", "json"))
        return {each["kind"]: each["id"] for each in listed["items"] if each["state"] == "open"}

    # Jobs in every state.

    def fill(self):
        """Submits jobs, and waits until each state has some, and until there are incidents."""
        self.streamfleet("pause", "--queue", "imports", "--reason", "the warehouse counts its stock")
        self._bulk("orders", [{"type": "order.import", "id": f"order-{n}", "payload": order(n)} for n in range(1, 31)])
        self._bulk("orders", [{"type": "report.generate", "id": "report-november", "payload": {"region": "east", "month": 11}}])
        self._bulk("orders", [{"type": "shop.sync", "id": f"sync-{n}", "payload": {"shop": n}} for n in range(1, 6)])
        self._bulk("orders", [{"type": "order.import", "id": f"later-{n}", "delay": f"{n}h", "payload": order(n)} for n in range(1, 9)])
        self._bulk("orders", [{"type": "webhook.call", "payload": {"url": f"https://shop.example.com/{n}"}} for n in range(1, 6)])
        self._bulk("orders", [{"type": "unknown.type", "id": "unknown-1", "payload": {}}])
        self._bulk("orders", [{"type": "payment.settle", "id": f"payment-{n}", "payload": {"order": n, "cents": 1999}} for n in range(1, 5)])
        self._bulk("mail", [mail(n) for n in range(1, DEAD + 1)])
        self._bulk("imports", [{"type": "order.import", "id": f"import-{n}", "payload": order(n)} for n in range(1, 13)])
        for queue, state, count in [
            ("orders", "done", 30),
            ("orders", "running", 1),
            ("orders", "retrying", 5),
            ("orders", "scheduled", 8),
            ("orders", "waiting", 4),
            ("orders", "dead", 4),
            ("mail", "dead", DEAD),
            ("imports", "waiting", 12),
        ]:
            self.until_state(queue, state, count)
        self._bulk("orders", [{"type": "order.import", "id": "forgotten-1", "payload": order(1)}])
        for queue, job in (("orders", "order-3"), ("orders", "forgotten-1"), ("mail", "mail-3")):
            listed = ["history", "list", "--queue", queue, "--limit", "500", "-o", "name"]
            until(f"the history of {queue}", lambda listed=listed, job=job: job in self.streamfleet(*listed).split(), SOON)
        # As Redis does when the time of a record is over.
        self.redis("DEL", "sf:{orders}:job:forgotten-1")
        wanted = {"dead_group", "needs_decision", "queue_paused"}
        until("incidents", lambda: wanted <= self.incidents().keys(), SOON)
        until("messages about incidents", lambda: self.sink.messages, SOON)
        self.redis("XADD", "sf:alerts:{alerts}:past", "*", "incident", json.dumps(OVER))
        rules = ["--rate", "1/h", "--yes", "--detach", "--reason", "the mail server is repaired"]
        self.streamfleet("dead", "replay", "--queue", "mail", "--type", "mail.send", "--where", "payload.to=ann7@example.com", *rules)

    def twist(self):
        """Submits what a hostile producer writes, and waits until it is dead."""
        lane = "sf:{mail}:jobs"
        (self.folder / "twisted").write_text(f"ValueError: {TWISTED}\n", encoding="utf-8")
        hostile = ["payload", json.dumps({"note": HOSTILE, "more": TWISTED}, ensure_ascii=False), "h.tenant", HOSTILE, "h.note", TWISTED]
        self.redis("XADD", lane, "*", "type", "cache.warm", "id", "hostile-1", "tracking", "all", *hostile)
        self.redis("XADD", lane, "*", "type", "text.twist", "id", "hostile-2", *hostile)
        self.redis("XADD", lane, "*", "type", HOSTILE, "payload", HOSTILE)
        self.until_state("mail", "dead", DEAD + 2)

    def repair(self):
        """Removes the cause of which the jobs of the type `mail.send` die."""
        (self.folder / "repaired").touch()

    def _bulk(self, queue, jobs):
        self.streamfleet("enqueue", "--bulk", "--queue", queue, given="".join(json.dumps(job) + "\n" for job in jobs))

    def _history(self, queue):
        """Adds a sample for each minute of the last hour, as a leader does, so that charts have something to show."""
        minute = int(self.redis("TIME").split()[0]) // 60
        commands = []
        for ago in range(59, 1, -1):
            wave = 1 + math.sin((minute - ago) / 7 + len(queue))
            arrived, done = round(40 * wave) + ago % 5, round(36 * wave) + ago % 7
            failed = 3 if ago % 13 == 0 else 0
            figures = {"span_ms": 60_000, "waiting": round(20 * wave), "running": 2, "delayed": 13, "dead": 0, "in_rooms": 0, "oldest_ms": ""}
            figures |= {"arrived": arrived, "done": done, "failed": failed, "retried": failed, "died": 0, "cancelled": 0}
            words = [f"'{word}'" for pair in figures.items() for word in pair]
            commands.append(f"XADD sf:{{{queue}}}:samples {(minute - ago) * 60_000}-0 {' '.join(words)}\n")
        self.redis(given="".join(commands))

    # Processes.

    def _start_redis(self, redis_server):
        subprocess.run([ROOT / "deploy/redis/passwords.sh", self.logins], check=True, timeout=SOON)
        users = self.logins / "users.acl"
        users.write_text(users.read_text() + "user stage on >stage ~* &* +@all\n")
        limits = ["--maxmemory", "256mb", "--maxmemory-policy", "noeviction", "--save", "", "--appendonly", "no"]
        self._redis = [redis_server, "--bind", "127.0.0.1", "--port", self.redis_port, "--aclfile", users, *limits]
        self.restart_redis()

    def restart_redis(self):
        """Starts Redis with what it has last saved."""
        self.redis_process = self.programs.start("redis", self._redis)
        until("redis", lambda: answers(self.redis_port), SOON)

    def kill_redis(self):
        """Saves what Redis has, and kills it."""
        self._refused = self.refusals()
        self.redis("SAVE")
        self.redis_process.kill()
        self.redis_process.wait()

    def _serve(self, name, login, words, **settings):
        """Starts a command of the program in the background, with a login to Redis and further settings."""
        settings = {f"STREAMFLEET__{key}": str(value) for key, value in settings.items()}
        environment = {**self._addresses(login), **settings}
        return self.programs.start(name, [self.program, "--config", self.config, *words], **environment)

    def _accounts(self):
        """Creates a person and a token for each role, and a reader. `people` has their passwords, and `tokens` the tokens."""
        for role in ("admin", "operator", "submitter", "viewer"):
            made = self._output([ROOT / "deploy/console/account.sh", self.logins, role, role, self.program])
            self.people[role] = made.rpartition(": ")[2].strip()
            token, digest = self._output([self.program, "console", "token"]).split("\n")[:2]
            self.tokens[role] = token.split()[1]
            with open(self.logins / "accounts.toml", "a", encoding="utf-8") as file:
                file.write(f'[tokens.{role}-program]\nsha256 = "{digest.split()[1]}"\nrole = "{role}"\n\n')
        # A viewer who sees payloads, but not what only operators see of them.
        made = self._output([ROOT / "deploy/console/account.sh", self.logins, "reader", "viewer", self.program])
        self.people["reader"] = made.rpartition(": ")[2].strip()
        with open(self.logins / "accounts.toml", "a", encoding="utf-8") as file:
            file.write("payloads = true\n\n")

    def _output(self, command):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=SOON, check=False, cwd=self.folder)
        if done.returncode:
            raise Wrong(f"{command[0]} ended with {done.returncode}: {done.stderr}")
        return done.stdout


def order(number):
    """Returns the payload of an order."""
    return {"customer": number % 5 + 1, "lines": number % 4 + 1, "note": "leave it with the neighbours"}


def mail(number):
    """Returns a job that dies."""
    payload = {"to": f"ann{number}@example.com", "subject": "Your order has been sent", "password": "hunter2"}
    return {"type": "mail.send", "id": f"mail-{number}", "payload": payload, "headers": {"tenant": f"shop-{number % 3}"}}
