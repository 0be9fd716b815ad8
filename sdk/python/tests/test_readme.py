"""Runs every code block of the README, and those of the project's pages that are for Python."""

import contextlib
import importlib.util
import io
import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import types
import unittest
import unittest.mock

try:
    import redis
    import redis.asyncio
except ImportError:
    if os.environ.get("STREAMFLEET_CHECK"):
        raise
    raise unittest.SkipTest("redis-py is not installed") from None

import streamfleet
from tests.console import Console
from tests.databases import create_tables
from tests.pool import SDK, Program, environment, keep_registered
from tests.server import Server

FENCE = re.compile(r"^(?:<!-- run: (?P<how>[^\n]*) -->\n)?```(?P<language>\w+)\n(?P<code>.*?)^```$", re.M | re.S)


ROOT = os.path.join(SDK, "..", "..")
SUBMIT_PAGE = os.path.join(ROOT, "docs", "submit.md")
HANDLERS_PAGE = os.path.join(ROOT, "docs", "handlers-in-your-language.md")
# The project's pages with blocks for users of this package.
PROJECT = (os.path.join(ROOT, "README.md"), SUBMIT_PAGE, HANDLERS_PAGE)


def blocks(how=None, page=os.path.join(SDK, "README.md")):
    with open(page, encoding="utf-8") as file:
        found = [match.groupdict() for match in FENCE.finditer(file.read())]
    return [block for block in found if how is None or block["how"] == how]


JOB = {"type": "mail.send", "payload": '{"to": "ann@example.com"}'}


def _text(value):
    return value.decode() if isinstance(value, bytes) else value


def files(folder, port):
    """Writes the files of the quick start."""
    for block in blocks():
        if block["how"].startswith("file "):
            with open(os.path.join(folder, block["how"][5:]), "w", encoding="utf-8") as file:
                file.write(block["code"].replace("6390", str(port)))


class Readme(unittest.TestCase):
    def setUp(self):
        keep_registered(self)

    def test_every_block_says_how_it_is_run(self):
        for block in blocks():
            self.assertRegex(block["how"] or "", r"^(shell (apt|install|config|celery|dev|submit)|file \S+|program|unit|producer|codecs|http|cli|batch|celery|effects|outbox)$", block["code"])

    @unittest.skipUnless(shutil.which("apt-cache"), "there is no apt")
    def test_the_packages_exist(self):
        (block,) = blocks("shell apt")
        packages = re.search(r"apt-get install -y (.*)", block["code"])[1].split()
        found = subprocess.run(["apt-cache", "show", "--no-all-versions", *packages], capture_output=True, text=True)
        for package in packages:
            self.assertIn(f"Package: {package}\n", found.stdout, found.stderr)

    def test_examples_of_handlers_run(self):
        orders = {
            "done": {"lines": [1, 2]},
            "fatal": {"lines": []},
            "drop": {"lines": [1], "cancelled": True},
            "snooze": {"lines": [1], "shop": "closed"},
            "retry": {"lines": [1], "busy": True},
        }
        asked = {
            "order.import": orders,
            "page.fetch": {"done": {"url": "x"}},
            "invoice.send": {"done": {"invoice": 7}, "fatal": {}},
            "card.charge": {"done": {"amount": 7}, "fatal": {"amount": 0}, "drop": {"amount": 2000}, "retry": {"amount": 7, "down": True}},
            "mail.check": {"done": {"to": "ann@example.com"}},
            "photo.scan": {"done": {"size": 1}, "fatal": {"size": 0}},
        }
        for block in blocks("program"):
            with Program(block["code"]) as program:
                (job_type,) = program.hello(50)["types"]
                for outcome, payload in asked.pop(job_type).items():
                    self.assertEqual(program.ask(job_type, payload)["outcome"], outcome)
        self.assertEqual(asked, {})

    def test_the_raw_submission_of_the_project_runs(self):
        server = Server()
        self.addCleanup(server.stop)
        (block,) = blocks("python xadd", SUBMIT_PAGE)
        for decode in (False, True):
            with redis.Redis(port=server.port, decode_responses=decode) as client:
                names = {"r": client, "json": json}
                exec(compile(block["code"], "submit.md", "exec"), names)
                ((entry, fields),) = client.xrevrange("sf:{default}:jobs", count=1)
                self.assertEqual(names["id"], entry)
                self.assertEqual({_text(name): _text(value) for name, value in fields.items()}, JOB)

    def test_every_block_of_the_project_in_this_language_is_run(self):
        named = [block["how"] for page in PROJECT for block in blocks(page=page) if block["language"] == "python"]
        self.assertEqual(named, ["python xadd", "python my_jobs.py", "python enqueue"])

    @unittest.skipUnless(os.environ.get("STREAMFLEET_BIN"), "STREAMFLEET_BIN is not set")
    def test_the_command_line_accepts_an_id_once(self):
        self.assertEqual(self.by_the_command_line("cli"), ("True False\n", ""))

    def by_the_command_line(self, how):
        server = Server()
        self.addCleanup(server.stop)
        (block,) = blocks(how)
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(os.path.abspath(os.environ["STREAMFLEET_BIN"]), os.path.join(folder, "streamfleet"))
            path = folder + os.pathsep + os.environ["PATH"]
            env = {**environment(), "PATH": path, "STREAMFLEET__REDIS__URL": server.url}
            done = subprocess.run([sys.executable, "-c", block["code"]], env=env, cwd=folder, capture_output=True, text=True)
        return done.stdout, done.stderr

    @unittest.skipUnless(os.environ.get("STREAMFLEET_BIN"), "STREAMFLEET_BIN is not set")
    def test_the_api_accepts_an_id_once_and_opens_a_batch(self):
        console = Console()
        self.addCleanup(console.stop)
        names, printed = {"url": console.url, "token": console.token("shop")}, io.StringIO()
        for how in ("http", "batch"):
            (block,) = blocks(how)
            with contextlib.redirect_stdout(printed):
                exec(compile(block["code"], "README.md", "exec"), names)
        self.assertEqual(printed.getvalue(), "True False\n['invoices-2026-11.0', 'invoices-2026-11.1']\n2\n")

    def test_the_example_for_celery_runs(self):
        tasks, calls = blocks("celery")
        server = Server()
        self.addCleanup(server.stop)
        shop, names = types.ModuleType("shop"), {}
        exec(compile(tasks["code"].replace("6379", str(server.port)), "README.md", "exec"), vars(shop))
        with unittest.mock.patch.dict(sys.modules, shop=shop):
            exec(compile(calls["code"], "README.md", "exec"), names)
        with redis.Redis(port=server.port) as client:
            self.assertEqual((client.xlen("sf:{mail}:jobs"), client.xlen("sf:{default}:jobs")), (1, 1))
        self.assertEqual(names["result"].state, "PENDING")

    def test_the_options_of_the_quick_start_are_printed(self):
        (block,) = blocks("shell config")
        with tempfile.TemporaryDirectory() as folder:
            files(folder, 6390)
            command = block["code"].split("#")[0].replace("venv/bin/python", shlex.quote(sys.executable))
            printed = subprocess.run(shlex.split(command), cwd=folder, env=environment(), capture_output=True, text=True).stdout
        for part in block["code"].split("# ")[1].strip().split(", "):
            self.assertIn(part, printed.splitlines())

    def test_examples_of_tests_pass(self):
        self.addCleanup(streamfleet.use, None)
        for block in blocks("unit"):
            exec(compile(block["code"], "README.md", "exec"), {"__name__": "readme"})

    def test_examples_with_a_database_run(self):
        connection = sqlite3.connect(":memory:")
        self.addCleanup(connection.close)
        create_tables(connection.execute, "sqlite")
        connection.execute("CREATE TABLE orders (number INTEGER)")
        connection.commit()
        for how in ("effects", "outbox"):
            (block,) = blocks(how)
            names = {"__name__": "readme", "connection": connection}
            exec(compile(block["code"], "README.md", "exec"), names)
            if how == "effects":
                for fence in ("17-0", "18-0"):
                    job = streamfleet.Job("order.charge", {"amount": 5, "name": "ann"}, fence=fence)
                    self.assertEqual(names["charge"](job), {"charged": 5})
                self.assertEqual(connection.execute("SELECT balance FROM accounts WHERE name = 'ann'").fetchall(), [(-5,)])
        types = [row[0] for row in connection.execute("SELECT type FROM streamfleet_outbox ORDER BY seq")]
        self.assertEqual(types, ["mail.send", "mail.send", "invoice.send", "stock.count"])

    def test_examples_of_producers_run(self):
        server = Server()
        self.addCleanup(server.stop)
        with redis.Redis(port=server.port) as client:
            found = blocks("producer")
            self.assertEqual(len(found), 2)
            for block in found:
                names = {"__name__": "readme", "client": client}
                names["async_client"] = lambda: redis.asyncio.Redis(port=server.port)
                exec(compile(block["code"], "README.md", "exec"), names)
            self.assertEqual(client.xlen("sf:{mail}:jobs"), 1004)
            self.assertEqual(client.xlen("sf:{mail}:jobs:high"), 1)

    @unittest.skipUnless(importlib.util.find_spec("cryptography"), "cryptography is not installed")
    def test_the_example_of_codecs_encrypts(self):
        server = Server()
        self.addCleanup(server.stop)
        os.environ["APP_KEYS"] = "2026-11:" + "a" * 42 + "E="
        self.addCleanup(os.environ.pop, "APP_KEYS")
        (block,) = blocks("codecs")
        with redis.Redis(port=server.port) as client:
            names = {"__name__": "readme", "client": client}
            exec(compile(block["code"], "README.md", "exec"), names)
            ((_, fields),) = client.xrange("sf:{default}:jobs")
        self.assertEqual((fields[b"encoding"], fields[b"h.codec"]), (b"raw", b"json aes-256-gcm;key=2026-11"))
        opened = names["codecs"].decode_payload("mail.send", fields[b"h.codec"].decode(), fields[b"payload"])
        self.assertEqual(opened, ("json", b'{"to":"ann@example.com"}'))

    def test_the_quick_start_works_with_a_worker_that_is_played(self):
        # test_fleet.py does the same with a real one.
        server = Server("--requirepass", "secret")
        self.addCleanup(server.stop)
        with tempfile.TemporaryDirectory() as folder:
            files(folder, server.port)
            os.mkdir(os.path.join(folder, ".streamfleet"))
            with open(os.path.join(folder, ".streamfleet", "password"), "w") as file:
                file.write("secret\n")
            with open(os.path.join(folder, "streamfleet.toml"), encoding="utf-8") as file:
                command = re.search(r'command = \["venv/bin/python", ([^]]*)\]', file.read())[1]
            args = re.findall(r'"([^"]*)"', command)
            with Program(args=args, cwd=folder) as program, redis.Redis(port=server.port, password="secret") as client:
                self.assertEqual(program.hello()["types"], ["greet"])

                def play():
                    (_, ((entry, fields),)), = client.xread({"sf:{default}:jobs": "0"}, block=20000)
                    answer = program.ask(fields[b"type"].decode(), {"name": "Ann"}, max_attempts=int(fields[b"max_attempts"]))
                    result = '{"greeting":"Hello Ann"}'
                    assert answer["result"] == {"greeting": "Hello Ann"}, answer
                    client.hset(f"sf:{{default}}:job:{entry.decode()}", mapping={"state": "done", "result": result})

                player = threading.Thread(target=play)
                player.start()
                with Program(args=["submit.py"], cwd=folder, env=environment()) as submitter:
                    output = submitter.process.stdout.read()
                    self.assertEqual(submitter.process.wait(20), 0, submitter.errors())
                player.join()
            self.assertRegex(output.decode(), r"^[0-9]+-[0-9]+ \{'greeting': 'Hello Ann'\}\n$")


if __name__ == "__main__":
    unittest.main()
