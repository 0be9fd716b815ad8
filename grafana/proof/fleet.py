"""A fleet under load: a private Redis, two workers that are scraped, one that leads and is killed, and jobs that end in every possible
way or wait for a gate or their turn."""

import contextlib
import json
import pathlib
import signal
import sqlite3
import subprocess
import threading
import urllib.request
import uuid

from .process import Wrong, answers, end, free_ports, until

CONFIG = pathlib.Path(__file__).parent / "streamfleet.toml"

# Jobs submitted per second, by (queue, type).
LOAD = {
    ("default", "quick"): 20,
    ("default", "report"): 16,
    ("default", "flaky"): 2,
    ("default", "fatal"): 1,
    ("default", "killed"): 1,
    ("default", "snoozed"): 1,
    ("default", "unreachable"): 1,
    ("mail", "quick"): 40,
    ("mail", "report"): 2,
    ("mail", "slow"): 1,
    ("mail", "flaky"): 1,
    ("mail", "stranger"): 1,
    ("mail", "mended"): 2,
    ("mail", "pooled"): 4,
    ("mail", "metered"): 4,
    ("mail", "brittle"): 1,
    ("shared", "long"): 6,
    ("halted", "quick"): 1,
}
QUEUES = list(dict.fromkeys(queue for queue, _ in LOAD))


class Fleet:
    """Redis, the workers, and a thread that submits jobs."""

    def __init__(self, programs, program, redis_server):
        self.programs, self.program = programs, str(program)
        self.redis_port, *self.worker_ports = free_ports(3)
        self.redis_cli = redis_server.replace("-server", "-cli")
        memory = ["--maxmemory", "256mb", "--maxmemory-policy", "noeviction"]
        private = ["--bind", "127.0.0.1", "--port", self.redis_port, "--save", "", "--appendonly", "no"]
        self.server = programs.start("redis", [redis_server, *private, *memory])
        until("redis", lambda: answers(self.redis_port))
        self.ordered("sql", "migrate")
        # The first worker leads every queue. It will be killed.
        self.victim = self.worker("worker-3")
        until("leader", lambda: all(self.redis("EXISTS", f"sf:{{{queue}}}:leader") == "1\n" for queue in QUEUES))
        self.workers = [self.worker(f"worker-{number}", f"127.0.0.1:{port}") for number, port in enumerate(self.worker_ports, 1)]
        until("workers", lambda: all(map(answers, self.worker_ports)))
        self.ordered("pause", "--queue", "halted", "--reason", "the proof shows a paused queue")
        self.done = threading.Event()
        self.submitter = threading.Thread(target=self._submit, daemon=True)

    def __enter__(self):
        self.submitter.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.submitter.join(30)

    def streamfleet(self, *words, given=None):
        """Runs a command of the program."""
        command = [self.program, "--config", str(CONFIG), "--redis", self._address(), *words]
        folder = self.programs.folder
        return subprocess.run(command, input=given, cwd=folder, capture_output=True, text=True, timeout=30, check=False)

    def ordered(self, *words):
        """Runs a command of the program, which must succeed."""
        done = self.streamfleet(*words)
        if done.returncode:
            raise Wrong(f"streamfleet {' '.join(words)} ended with {done.returncode}: {done.stderr}")

    def redis(self, *words):
        """Sends a command to Redis."""
        command = [self.redis_cli, "-p", str(self.redis_port), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout

    def worker(self, name, listen="off"):
        """Starts a worker. `listen` is the address that serves its metrics."""
        command = [self.program, "--config", CONFIG, "--redis", self._address(), "worker"]
        return self.programs.start(name, command, STREAMFLEET__TELEMETRY__LISTEN=listen, STREAMFLEET__TELEMETRY__LOG="warn")

    def kill_the_leader(self):
        """Kills the third worker while it runs jobs, so that the others take over its jobs and its queues."""
        until("third worker to run jobs", lambda: sum(each["running"] > 0 for each in self.live()) >= 3)
        self.victim.kill()
        self.victim.wait()

    def replay(self):
        """Removes the cause of which the jobs of the type `mended` die, and begins a campaign. It replays others that die again."""
        (self.programs.folder / "cause-removed").touch()
        self.ordered("dead", "replay", "--queue", "mail", "--all", "--rate", "1/s", "--yes", "--detach", "--reason", "the cause is removed")

    def make_archive(self):
        """Creates the folder of the archive. Until then, retention drops nothing."""
        (self.programs.folder / "archive").mkdir()

    @contextlib.contextmanager
    def without_redis(self):
        """Freezes Redis for the duration of the block."""
        self.server.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.server.send_signal(signal.SIGCONT)

    def stop_workers(self):
        """Stops the scraped workers gracefully."""
        for each in self.workers:
            end(each)

    def live(self):
        """Returns the live workers."""
        said = self.streamfleet("workers", "--json").stdout
        return json.loads(said)["items"] if said else []

    def metrics(self, number=0):
        """Returns the metrics of a worker."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.worker_ports[number]}/metrics", timeout=10) as answer:
            return answer.read().decode()

    def _address(self):
        return f"redis://127.0.0.1:{self.redis_port}"

    def _submit(self):
        self.streamfleet("enqueue", "report", "--queue", "default", "--delay", "1h")
        while not self.done.is_set():
            for queue in QUEUES:
                jobs = [(kind, count) for (where, kind), count in LOAD.items() if where == queue]
                lines = [line(kind, number) for kind, count in jobs for number in range(count)]
                self.streamfleet("enqueue", "--bulk", "--queue", queue, given="\n".join(lines) + "\n")
            self.streamfleet("enqueue", "report", "--queue", "default", "--expires-in", "10ms")
            self._order()
            self.done.wait(1)

    def _order(self):
        """Writes rows of the outbox, as an application does in its own transaction."""
        insert = "INSERT INTO streamfleet_outbox (job_id, queue, type, payload) VALUES (?, 'mail', 'quick', '{}')"
        with contextlib.closing(sqlite3.connect(self.programs.folder / "history.db", timeout=10)) as database, database:
            database.executemany(insert, [(str(uuid.uuid4()),) for _ in range(5)])


def line(kind, number):
    """Returns a job for --bulk. The first one of each type has a tenant of its own, and the others are the flood of another tenant."""
    return json.dumps({"type": kind, "payload": {}, "headers": {"tenant": "large" if number else "small"}})
