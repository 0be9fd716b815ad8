"""The package with the real program: STREAMFLEET_BIN is the path to `streamfleet`. Without it, these tests are skipped."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

try:
    import redis
except ImportError:
    if os.environ.get("STREAMFLEET_CHECK"):
        raise
    raise unittest.SkipTest("redis-py is not installed") from None

from streamfleet import Cli, JobFailed, Producer, Submission
from tests.pool import SDK
from tests.server import Server, free_port
from tests.test_readme import HANDLERS_PAGE, blocks, files

BIN = os.environ.get("STREAMFLEET_BIN")
DEADLINE = 60.0

HANDLERS = """
    import asyncio, os, time
    from streamfleet import Done, Drop, Fatal, Retry, Snooze, job

    def mark(name):
        fd = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        os.close(fd)

    def first_time(name):
        try:
            mark(name)
            return True
        except FileExistsError:
            return False

    @job("sdk.python")
    def handler(job):
        print("noise")
        what = job.payload["what"] if isinstance(job.payload, dict) else "echo"
        if what == "echo":
            return job.payload
        if what == "done":
            return {"attempt": job.attempt, "max_attempts": job.max_attempts, "headers": job.headers, "pid": os.getpid()}
        if what == "bytes":
            return b"\\xff\\x00"
        if what == "retry":
            if job.attempt == 1:
                return Retry("not yet", delay=0.05)
            return job.attempt
        if what == "fail":
            raise LookupError("no customer 7")
        if what == "fatal":
            raise Fatal("never")
        if what == "drop":
            return Drop("sold out")
        if what == "snooze":
            if first_time("snoozed"):
                return Snooze(0.05, "closed")
            return job.attempt
        if what == "hold":
            job.progress(50, "half")
            job.log("holding", rows=3)
            mark("held")
            while not os.path.exists("go on"):
                time.sleep(0.01)
            return os.getpid()
        if what == "hang":
            time.sleep(600)

    together = 0

    async def meet(job):
        global together
        together += 1
        while together < 20:
            await asyncio.sleep(0.01)
        return True
"""

ASYNC = """
    import streamfleet
    import my_handlers
    streamfleet.job("sdk.asyncio")(my_handlers.meet)
"""


def pool(program, **more):
    table = {"command": [sys.executable, "-m", "streamfleet", program], "processes": 1, "env": {"PYTHONPATH": SDK}, **more}
    return "{ " + ", ".join(f"{key} = {toml(value)}" for key, value in table.items()) + " }"


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(each)}" for key, each in value.items()) + " }"
    return json.dumps(value)


class Base(unittest.TestCase):
    """A worker with handlers. ``types`` is the part of the configuration that names them."""

    def types(self):
        return f"""
            [types."sdk.python"]
            handler = {{ pool = {pool("my_handlers")} }}
            tracking = "all"
            max_attempts = 2
            timeout = "30s"
            backoff = {{ fixed = "50ms" }}
            [types."sdk.asyncio"]
            handler = {{ pool = {pool("my_async", inflight=20)} }}
            tracking = "all"
            """

    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.stop)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.write("my_handlers.py", textwrap.dedent(HANDLERS))
        self.write("my_async.py", textwrap.dedent(ASYNC))
        self.write(
            "streamfleet.toml",
            f"""
            [redis]
            url = "{self.server.url}"
            [telemetry]
            listen = "127.0.0.1:{free_port()}"
            """
            + self.types(),
        )
        self.worker = self.start("worker")
        self.client = redis.Redis(port=self.server.port)
        self.addCleanup(self.client.close)
        self.producer = Producer(self.client)

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(text))

    def start(self, *args):
        self.log = open(os.path.join(self.folder, "worker.log"), "wb")
        self.addCleanup(self.log.close)
        process = subprocess.Popen([BIN, *args], cwd=self.folder, stdout=self.log, stderr=self.log)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.wait()

    def said(self):
        with open(os.path.join(self.folder, "worker.log"), encoding="utf-8", errors="replace") as file:
            return file.read()[-4000:]

    def do(self, what, **options):
        id = self.producer.enqueue("sdk.python", {"what": what}, **options)
        try:
            return self.producer.wait(id, DEADLINE)
        except TimeoutError as error:
            raise AssertionError(f"{error}; the worker said: {self.said()}") from None

    def until(self, condition, what):
        end = time.monotonic() + DEADLINE
        while not condition():
            self.assertLess(time.monotonic(), end, f"{what}; the worker said: {self.said()}")
            time.sleep(0.01)

    def status(self, id):
        command = [BIN, "status", id, "--json"]
        return json.loads(subprocess.run(command, cwd=self.folder, check=True, stdout=subprocess.PIPE, timeout=DEADLINE).stdout)


@unittest.skipUnless(BIN, "STREAMFLEET_BIN is not set: the tests with the real program are skipped")
class Fleet(Base):
    def test_each_outcome_has_its_effect(self):
        result = self.do("done", headers={"tenant": "9"}, max_attempts=3).value()
        self.assertEqual((result["attempt"], result["max_attempts"], result["headers"]), (1, 3, {"tenant": "9"}))
        self.assertEqual(self.do("bytes").value(), b"\xff\x00")
        self.assertEqual(self.do("retry").value(), 2)
        self.assertEqual(self.do("snooze").value(), 1)
        for what, state, error in (
            ("fatal", "dead", "never"),
            ("fail", "dead", "LookupError: no customer 7"),
            ("drop", "cancelled", "sold out"),
        ):
            with self.subTest(what):
                status = self.do(what)
                self.assertEqual(status.state, state)
                self.assertIn(error, json.dumps(self.status(status.id)))
                with self.assertRaises(JobFailed):
                    status.value()

    def test_payloads_arrive_as_they_were_sent(self):
        for payload, encoding, want in (
            ({"n": [2**64 - 1, -(2**63), 0.1, "ü漢\u2028"], "what": "echo"}, None, None),
            (b"\xff\x00\n", None, None),
            (b"\x92\x01\xa1a", "msgpack", [1, "a"]),
            (None, None, None),
        ):
            with self.subTest(payload):
                id = self.producer.enqueue("sdk.python", payload, encoding=encoding)
                self.assertEqual(self.producer.wait(id, DEADLINE).value(), want or payload)

    def test_a_job_of_a_program_that_sleeps_times_out(self):
        status = self.do("hang", timeout=0.5, max_attempts=1)
        self.assertEqual(status.state, "dead")
        self.assertEqual(self.do("done").state, "done")

    def test_progress_and_logs_are_seen_and_sigterm_lets_the_job_finish(self):
        id = self.producer.enqueue("sdk.python", {"what": "hold"})
        self.until(lambda: os.path.exists(os.path.join(self.folder, "held")), "the job did not start")
        self.until(lambda: self.progress(id) == 50, "no progress was seen")
        self.until(lambda: "holding" in json.dumps(self.status(id)["log"]), "no log was seen")
        self.worker.send_signal(signal.SIGTERM)
        self.write("go on", "")
        self.assertEqual(self.worker.wait(DEADLINE), 0, self.said())
        status = self.producer.status(id)
        self.assertEqual(status.state, "done")
        with self.assertRaises(ProcessLookupError):
            os.kill(status.value(), 0)

    def progress(self, id):
        status = self.producer.status(id)
        return status and status.progress

    def test_asyncio_jobs_run_at_once_in_one_process(self):
        ids = [self.producer.enqueue("sdk.asyncio", n) for n in range(20)]
        for id in ids:
            self.assertIs(self.producer.wait(id, DEADLINE).value(), True)


@unittest.skipUnless(BIN, "STREAMFLEET_BIN is not set: the tests with the real program are skipped")
class Configured(Base):
    """What the configuration of the worker says about errors, steps and batches."""

    def types(self):
        self.write(
            "my_rules.py",
            """
            import asyncio, os

            import streamfleet
            from streamfleet import job

            class Declined(ValueError):
                pass

            streamfleet.errors({KeyError: "retry"})

            @job("charge")
            def charge(job):
                raise {"value": ValueError, "declined": Declined, "key": KeyError, "os": OSError}[job.payload](job.payload)

            @job("gift")
            def gift(job):
                return {"receipt": 7} if job.step == "charge" else [job.results["charge"]["receipt"], job.step]

            @job("pair")
            async def pair(job):
                if job.step == "both":
                    return [job.results["left"], job.results["right"]]
                other = "right" if job.step == "left" else "left"
                # Each step may have a program of its own.
                open(f"met-{job.step}", "w").close()
                while not os.path.exists(f"met-{other}"):
                    await asyncio.sleep(0.002)
                return other

            @job("member")
            def member(job):
                return job.payload

            @job("total")
            def total(job):
                return job.payload
            """,
        )
        handler = f"handler = {{ pool = {pool('my_rules')} }}"
        return f"""
            [types.charge]
            {handler}
            tracking = "all"
            max_attempts = 2
            backoff = {{ fixed = "50ms" }}
            [types.charge.errors]
            ValueError = "fatal"
            "my_rules.*" = "drop"
            KeyError = "fatal"
            [types.gift]
            tracking = "all"
            [types.gift.steps.charge]
            kind = "once"
            {handler}
            [types.gift.steps.mail]
            kind = "auto"
            after = ["charge"]
            {handler}
            [types.pair]
            tracking = "all"
            timeout = "20s"
            concurrent_steps = 2
            [types.pair.steps.left]
            kind = "auto"
            {handler}
            [types.pair.steps.right]
            kind = "auto"
            {handler}
            [types.pair.steps.both]
            kind = "auto"
            after = ["left", "right"]
            {handler}
            [types.member]
            {handler}
            [types.total]
            {handler}
            """

    def ended(self, type, payload):
        try:
            return self.producer.wait(self.producer.enqueue(type, payload), DEADLINE)
        except TimeoutError as error:
            raise AssertionError(f"{error}; the worker said: {self.said()}") from None

    def test_the_configuration_decides_what_the_program_leaves_open(self):
        for payload, state, attempts in (("value", "dead", 1), ("declined", "cancelled", 1), ("key", "dead", 2), ("os", "dead", 2)):
            with self.subTest(payload):
                status = self.ended("charge", payload)
                self.assertEqual((status.state, len(self.status(status.id)["attempts"])), (state, attempts))

    def test_a_step_reads_the_results_of_the_steps_before_it(self):
        self.assertEqual(self.ended("gift", None).value()["mail"], [7, "mail"])

    def test_steps_that_are_ready_run_side_by_side(self):
        # Each of two steps returns what the other one is called, once both run.
        self.assertEqual(self.ended("pair", None).value(), {"both": ["right", "left"], "left": "right", "right": "left"})

    def test_a_batch_is_opened_and_followed(self):
        cli = Cli([BIN], env={"STREAMFLEET__REDIS__URL": self.server.url})
        members = [
            Submission("member", {"n": 2**64 - 1}),
            Submission("member", b'{\n"n": 2}', encoding="json", id="own", headers={"tenant": "9"}, lane="high", timeout=1.5),
            Submission("member", "Ännchen".encode(), delay=0.1, then=[{"type": "member"}]),
        ]
        follow = Submission("total", {"month": 11}, id="total-11")
        ids = ["mails-11.0", "own", "mails-11.2"]
        self.assertEqual(cli.batch("mails-11", members, follow), ids)
        self.assertEqual(self.producer.wait("total-11", DEADLINE).value(), {"month": 11})
        self.assertEqual(self.status("own")["state"], "done")
        self.assertEqual(cli.batch("mails-11", members, follow), ids)
        with self.assertRaisesRegex(ValueError, "a batch needs a member"):
            cli.batch("mails-12", [], follow)


@unittest.skipUnless(BIN, "STREAMFLEET_BIN is not set: the tests with the real program are skipped")
class ProjectPage(unittest.TestCase):
    def test_the_example_of_the_project_runs(self):
        server = Server()
        self.addCleanup(server.stop)
        code = {how: blocks(f"python {how}", HANDLERS_PAGE)[0]["code"] for how in ("my_jobs.py", "streamfleet.toml", "enqueue")}
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "my_jobs.py"), "w") as file:
                file.write(code["my_jobs.py"])
            with open(os.path.join(folder, "streamfleet.toml"), "w") as file:
                # Here the package is not installed.
                pool = code["streamfleet.toml"].replace("processes = 4", 'processes = 4, pass_env = ["PYTHONPATH"]')
                file.write(pool + 'tracking = "all"\n')
            with open(os.path.join(folder, "submit.py"), "w") as file:
                wait = "print(Producer(r).wait(id, 60).value())"
                file.write(f"import redis\nr = redis.Redis(port={server.port})\n{code['enqueue']}\n{wait}\n")
            # The `python3` of the example is the one that runs this.
            path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
            environment = {**os.environ, "PATH": path, "PYTHONPATH": SDK, "STREAMFLEET__REDIS__URL": server.url}
            environment["STREAMFLEET__TELEMETRY__LISTEN"] = f"127.0.0.1:{free_port()}"
            with open(os.path.join(folder, "log"), "w+b") as log:
                worker = subprocess.Popen([BIN, "worker"], cwd=folder, env=environment, stdout=log, stderr=log)
                try:
                    done = subprocess.run(
                        [sys.executable, "submit.py"], cwd=folder, env=environment, capture_output=True, text=True, timeout=DEADLINE
                    )
                finally:
                    worker.terminate()
                    worker.wait(DEADLINE)
                log.seek(0)
                self.assertEqual(done.stdout, "{'sent_to': 'ann@example.com'}\n", done.stderr + log.read().decode())


@unittest.skipUnless(BIN, "STREAMFLEET_BIN is not set: the quick start is run with a worker that is played")
class QuickStart(unittest.TestCase):
    def test_the_quick_start_of_the_readme_works(self):
        port = free_port()
        with tempfile.TemporaryDirectory() as folder:
            files(folder, port)
            # check.sh runs the block that installs the package; here its Python is used.
            os.makedirs(os.path.join(folder, "venv", "bin"))
            wrapper = os.path.join(folder, "venv", "bin", "python")
            with open(wrapper, "w") as file:
                file.write(f'#!/bin/sh\nPYTHONPATH={SDK}:$PYTHONPATH exec {sys.executable} "$@"\n')
            os.chmod(wrapper, 0o755)
            os.mkdir(os.path.join(folder, "bin"))
            os.symlink(os.path.realpath(BIN), os.path.join(folder, "bin", "streamfleet"))
            path = os.path.join(folder, "bin") + os.pathsep + os.environ["PATH"]
            environment = {**os.environ, "PATH": path, "STREAMFLEET__TELEMETRY__LISTEN": f"127.0.0.1:{free_port()}"}

            def script(how):
                (block,) = blocks(f"shell {how}")
                return ["bash", "-euc", block["code"].replace("6390", str(port))]

            # The check starts the program and compares the types.
            with open(os.path.join(folder, "more.py"), "w") as file:
                file.write('from my_jobs import *\n\n\n@job("invoice.total")\ndef total(job):\n    return 1\n')
            with open(os.path.join(folder, "pools.toml"), encoding="utf-8") as file:
                pools = file.read()
            with open(os.path.join(folder, "pools.toml"), "w", encoding="utf-8") as file:
                file.write(pools.replace("my_jobs", "more"))
            check = [BIN, "--config", "pools.toml", "config", "check"]
            checked = subprocess.run(check, cwd=folder, env=environment, capture_output=True, text=True, timeout=DEADLINE)
            self.assertEqual(checked.stdout, "the configuration is valid\n", checked.stderr)

            with open(os.path.join(folder, "dev.log"), "wb") as log:
                dev = subprocess.Popen(
                    script("dev"), cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
                )
            try:
                end = time.monotonic() + DEADLINE
                while True:
                    done = subprocess.run(script("submit"), cwd=folder, env=environment, capture_output=True, timeout=DEADLINE)
                    if done.returncode == 0:
                        break
                    # Its Redis may not have started yet.
                    with open(os.path.join(folder, "dev.log"), "rb") as log:
                        said = log.read().decode(errors="replace")[-4000:]
                    self.assertLess(time.monotonic(), end, done.stderr.decode() + said)
                    self.assertIsNone(dev.poll(), said)
                    time.sleep(0.1)
                self.assertRegex(done.stdout.decode(), r"^[0-9]+-[0-9]+ \{'greeting': 'Hello Ann'\}\n$")
            finally:
                os.killpg(dev.pid, signal.SIGINT)
                try:
                    dev.wait(DEADLINE)
                except subprocess.TimeoutExpired:
                    os.killpg(dev.pid, signal.SIGKILL)
                    dev.wait()


if __name__ == "__main__":
    unittest.main()
