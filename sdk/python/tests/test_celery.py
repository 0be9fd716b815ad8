"""The shim: an application of Celery, on Celery and then on streamfleet, and what it refuses."""

import difflib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from streamfleet import Job
from streamfleet import _producer, _worker
from streamfleet.celery import Celery, MaxRetriesExceededError, TaskFailed, chain, chord, group, shared_task
from streamfleet.testing import FakeProducer, run
from tests.pool import environment, keep_registered
from tests.server import Server

BIN = os.environ.get("STREAMFLEET_BIN")
SITE = Path(__file__).parent / "celery_site"
#: How long anything may take on a very busy machine.
DEADLINE = 180.0


class Shim(unittest.TestCase):
    """The tasks of one test each, run inline by a fake producer."""

    def setUp(self):
        self.app = Celery("test")
        self.fake = self.app.producer = FakeProducer()
        keep_registered(self)
        _worker._default.handlers.clear()
        self.add = self.app.task(name="add")(lambda x, y: x + y)

    def test_a_call_has_its_options(self):
        @self.app.task(name="Mail.Send", queue="mail", time_limit=5, max_retries=None, acks_late=True)
        def send(to):
            return to

        send.apply_async(("ann",), countdown=60, priority=9, expires=3600, task_id="x", headers={"tenant": "9"}, link_error=self.add.s())
        (job,) = self.fake.jobs
        self.assertEqual((job.type, job.id, job.queue, job.lane, job.headers), ("mail.send", "x", "mail", "high", {"tenant": "9"}))
        self.assertEqual({name: job.fields[name] for name in ("delay_ms", "timeout_ms", "max_attempts", "tracking", "on_failure")}, {"delay_ms": "60000", "timeout_ms": "5000", "max_attempts": "4294967295", "tracking": "all", "on_failure": "add"})
        self.assertAlmostEqual(int(job.fields["expires_at_ms"]) / 1000, time.time() + 3600, delta=60)
        self.assertEqual(self.app.tasks["Mail.Send"], send)
        self.assertEqual(send("bob"), "bob")

    def test_a_route_and_the_settings_of_a_module_count(self):
        class Settings:
            CELERY_TASK_ROUTES = {"add": {"queue": "sums"}}
            CELERY_RESULT_EXPIRES = 60
            OTHER = 1

        self.app.config_from_object(Settings, namespace="CELERY")
        self.add.delay(1, 2)
        self.assertEqual((self.fake.jobs[0].queue, self.app.conf.result_expires), ("sums", 60))

    def test_a_chain_hands_results_on(self):
        result = chain(self.add.s(1, 2), self.add.s(3), self.add.si(10, 20), self.add.s(5))()
        self.assertEqual(result.state, "PENDING")
        self.fake.run()
        self.assertEqual((result.get(), result.state, len(self.fake.jobs)), (35, "SUCCESS", 4))
        with self.assertRaisesRegex(NotImplementedError, "only the first"):
            chain(self.add.s(1, 2), self.add.s(3).set(queue="other"))
        with self.assertRaisesRegex(NotImplementedError, "group"):
            chain(self.add.s(1, 2), group(self.add.s(3)))

    def test_a_chain_stops_where_it_fails(self):
        result = chain(self.add.s(1, "a"), self.add.s(3))()
        self.fake.run()
        self.assertEqual((result.state, len(self.fake.jobs)), ("FAILURE", 1))
        with self.assertRaisesRegex(TypeError, "unsupported operand"):
            result.get()
        self.assertIsInstance(result.get(propagate=False), TypeError)

    def test_a_group_and_a_chord_have_all_results(self):
        total = self.app.task(name="total")(lambda numbers, plus=0: sum(numbers) + plus)
        results = group(self.add.s(n, n) for n in range(3))()
        self.fake.run()
        self.assertEqual(results.get(timeout=60), [0, 2, 4])
        result = chord([self.add.s(n, n) for n in range(3)])(total.s(plus=100))
        other = (group(self.add.s(1, 1)) | total.si([5]))()
        self.fake.run()
        self.assertEqual((result.get(), other.get()), (106, 5))

    def test_only_named_exceptions_and_retry_lead_to_another_attempt(self):
        @self.app.task(name="auto", autoretry_for=(OSError,), dont_autoretry_for=(FileNotFoundError,), retry_backoff=2, max_retries=2)
        def auto(error):
            raise error[0] if isinstance(error, list) else getattr(__import__("builtins"), error)("no")

        for name, attempt, outcome, delay in (("ConnectionError", 1, "Retry", 2000), ("ConnectionError", 2, "Retry", 4000), ("ConnectionError", 3, "Fatal", None), ("FileNotFoundError", 1, "Fatal", None), ("KeyError", 1, "Fatal", None)):
            with self.subTest(name, attempt=attempt):
                ended = run(Job("auto", {"args": [name], "kwargs": {}}, attempt=attempt))
                self.assertEqual((type(ended.outcome).__name__, getattr(ended.outcome, "delay_ms", None)), (outcome, delay))

        @self.app.task(bind=True, name="again", max_retries=1)
        def again(self, exc=None):
            raise self.retry(exc=KeyError(exc) if exc else None, countdown=7)

        for exc, attempt, error in ((None, 1, "another attempt"), (None, 2, "MaxRetriesExceededError"), ("k", 1, "KeyError: 'k'"), ("k", 2, "KeyError: 'k'")):
            self.assertIn(error, run(Job("again", {"args": [exc], "kwargs": {}}, attempt=attempt)).error)
        self.assertTrue(issubclass(MaxRetriesExceededError, Exception))

    def test_an_eager_application_runs_its_tasks_at_once(self):
        self.app.conf.task_always_eager = True
        total = shared_task(name="total")(lambda numbers: sum(numbers))
        self.assertEqual(self.add.delay(1, 2).get(), 3)
        self.assertEqual(chain(self.add.s(1, 2), self.add.s(3))().get(), 6)
        self.assertEqual(chord([self.add.s(1, 1)])(total.s()).get(), 2)
        self.assertEqual(self.add.apply((1, "a")).state, "FAILURE")
        self.assertEqual(self.fake.jobs, [])

    def test_what_it_lacks_is_refused(self):
        with self.assertRaisesRegex(TypeError, "limits belong into"):
            self.app.task(rate_limit="10/s")(print)
        with self.assertRaisesRegex(TypeError, "no option 'retry'"):
            self.add.apply_async((1, 2), retry=True)
        with self.assertRaisesRegex(TypeError, "task that follows"):
            chord([self.add.s(1, 2)])()
        result = self.add.apply((1, 2))
        result._known = None
        with self.assertRaises(TimeoutError):
            result.get(timeout=0.05)

    def test_an_exception_of_another_program_is_a_failure(self):
        result = self.add.delay(1, 2)
        result._known = _producer.Status(result.id, "dead", error="other.Declined: no")
        with self.assertRaisesRegex(TaskFailed, "other.Declined: no"):
            result.get()


class Fleet:
    """The application on Celery or on streamfleet, with a Redis and workers of its own."""

    def __init__(self, backend, server=None):
        self.owns, self.server = server is None, server or Server()
        self.folder = Path(tempfile.mkdtemp())
        self.site = self.folder / "site"
        shutil.copytree(SITE, self.site)
        self.backend, self.workers = backend, []
        if backend == "streamfleet":
            text = (self.site / "shop.py").read_text()
            (self.site / "shop.py").write_text(text.replace("from celery import", "from streamfleet.celery import"))
        (self.folder / "streamfleet").mkdir()
        path = os.pathsep.join([environment()["PYTHONPATH"], str(self.site)])
        self.env = {**os.environ, "PYTHONPATH": path, "SHOP_REDIS": self.server.url, "SHOP_FOLDER": str(self.folder), "STREAMFLEET__TELEMETRY__LISTEN": "off"}
        if BIN:
            os.symlink(os.path.abspath(BIN), self.folder / "program")
            (self.folder / "bin").mkdir()
            os.symlink(os.path.abspath(BIN), self.folder / "bin/streamfleet")
            self.env["PATH"] = f"{self.folder / 'bin'}:{os.environ['PATH']}"

    def script(self, *args):
        done = subprocess.run([sys.executable, *args], cwd=self.site, env=self.env, capture_output=True, text=True, timeout=2 * DEADLINE)
        assert done.returncode == 0, f"{done.stderr}; the worker said: {self.said()}"
        return done.stdout

    def work(self, processes=2):
        if self.backend == "celery":
            command = [sys.executable, "-m", "celery", "-A", "shop", "worker", f"--concurrency={processes}", "-Q", "shop", "--loglevel=WARNING"]
        else:
            printed = self.script("-m", "streamfleet", "config", "--pool", "python", "shop")
            lines = [f'[redis]\nurl = "{self.server.url}"\n[worker]\nlease = "5s"\n[queues.shop]\nconcurrency = {processes}\n', printed.replace("[pools.python]\n", f'[pools.python]\nprocesses = {processes}\nstart_timeout = "1m"\nenv = {{ PYTHONPATH = {json.dumps(self.env["PYTHONPATH"])} }}\npass_env = ["SHOP_REDIS", "SHOP_FOLDER"]\n')]
            (self.site / "streamfleet.toml").write_text("\n".join(lines))
            command = ["streamfleet", "worker"]
        log = open(self.folder / f"worker-{len(self.workers)}.log", "wb")
        process = subprocess.Popen(command, cwd=self.site, env=self.env, stdout=log, stderr=log, start_new_session=True)
        log.close()
        self.workers.append(process)
        return process

    def said(self):
        return "\n".join(path.read_text(errors="replace")[-3000:] for path in self.folder.glob("worker-*.log"))

    def until(self, condition, what):
        end = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < end, f"{what}; the worker said: {self.said()}"
            time.sleep(0.01)

    def stop(self):
        for process in self.workers:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if self.owns:
            self.server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


@unittest.skipUnless(BIN, "STREAMFLEET_BIN is not set: the tests with the real program are skipped")
class Application(unittest.TestCase):
    maxDiff = None

    def seen(self, backend):
        fleet = Fleet(backend)
        self.addCleanup(fleet.stop)
        fleet.work()
        return json.loads(fleet.script("flow.py", "180"))

    def test_it_sees_the_same_as_on_celery(self):
        try:
            import celery  # noqa: F401
        except ImportError:
            self.skipTest("celery is not installed")
        self.assertEqual(self.seen("streamfleet"), self.seen("celery"))

    def test_it_sees_what_its_tasks_do(self):
        seen = self.seen("streamfleet")
        for name, value in (("delay", 5), ("retries", {"to": "ann@example.com", "retries": 2}), ("chain", 18), ("pipe", 7), ("chord", 12), ("countdown", True), ("eta", True)):
            self.assertEqual(seen[name], {"value": value, "state": "SUCCESS", "successful": True, "failed": False}, name)
        self.assertEqual(seen["declined"]["value"], "Declined: 101 is too much")
        self.assertEqual(seen["mails"], "ann@example.com: Welcome\n")

    def test_only_the_import_differs(self):
        fleet = Fleet("streamfleet")
        self.addCleanup(fleet.stop)
        for path in SITE.glob("*.py"):
            changed = list(difflib.ndiff(path.read_text().splitlines(), (fleet.site / path.name).read_text().splitlines()))
            self.assertEqual([line for line in changed if line[0] == "+"], ["+ from streamfleet.celery import Celery, chain, chord, group, shared_task"] if path.name == "shop.py" else [])

    def test_workers_that_are_killed_lose_nothing(self):
        fleet = Fleet("streamfleet")
        self.addCleanup(fleet.stop)
        fleet.script("-c", "from shop import note\nfor n in range(600): note.delay(n)")

        def notes():
            return len(list(fleet.folder.glob("note-*")))

        fleet.work()
        for killed in range(3):
            fleet.until(lambda: notes() > (killed + 1) * 60, "tasks run")
            fleet.workers[-1].kill()
            fleet.work()
        fleet.until(lambda: notes() == 600, "all tasks run")


if __name__ == "__main__":
    unittest.main()
