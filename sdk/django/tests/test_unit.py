"""The backend with a Redis, and without a worker: this test runs the handler itself, and writes the records that the fleet would."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from datetime import datetime, timedelta, timezone
from pathlib import Path

import django

FOLDER = tempfile.TemporaryDirectory()
os.environ.update(DJANGO_SETTINGS_MODULE="site_settings", SHOP_FOLDER=FOLDER.name, SHOP_REDIS="redis://127.0.0.1:1", SHOP_BACKEND="streamfleet")
os.sys.path.insert(0, str(Path(__file__).parent / "site"))
django.setup()

import redis  # noqa: E402
from django.core.exceptions import ImproperlyConfigured  # noqa: E402
from django.test import override_settings  # noqa: E402

from shop import tasks  # noqa: E402
from streamfleet import Job  # noqa: E402
from streamfleet.testing import run  # noqa: E402
from streamfleet_django import StreamfleetBackend  # noqa: E402
from streamfleet_django._compat import TaskResultDoesNotExist, task_backends, task_enqueued, task_finished, task_started  # noqa: E402
from streamfleet_django.handler import worker  # noqa: E402
from tests.server import Server  # noqa: E402


def made_client():
    return redis.Redis(port=1)


class Backend(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.stop)
        cls.client = redis.Redis(port=cls.server.port)
        cls.addClassCleanup(cls.client.close)

    def setUp(self):
        self.client.flushall()
        (Path(FOLDER.name) / "notes").mkdir(exist_ok=True)
        self.backend = task_backends["default"]
        self.backend.__dict__.update(client=self.client)
        self.seen = []
        for name, signal in (("enqueued", task_enqueued), ("started", task_started), ("finished", task_finished)):
            signal.connect(self.note(name), weak=False, dispatch_uid=name)
            self.addCleanup(signal.disconnect, dispatch_uid=name)

    def note(self, name):
        return lambda sender, task_result, **_: self.seen.append((name, sender.__name__, str(task_result.status), task_result.attempts))

    def entry(self, queue="default", lane=""):
        ((_, fields),) = self.client.xrange(f"sf:{{{queue}}}:jobs{lane}")
        return {name.decode(): value.decode() for name, value in fields.items()}

    def play(self, queue="default", lane="", **more):
        """Runs the job of the only entry, and writes its record."""
        entry = self.entry(queue, lane)
        headers = {name[2:]: value for name, value in entry.items() if name.startswith("h.")}
        more = {"max_attempts": int(entry["max_attempts"]), **more}
        ended = run(Job(entry["type"], json.loads(entry["payload"]), id=entry["id"], queue=queue, headers=headers, **more), worker)
        state = "done" if ended.error is None else "dead" if more.get("attempt", 1) >= more["max_attempts"] else "retrying"
        self.record(entry["id"], queue, state=state, error=ended.error or "")
        return ended

    def record(self, id, queue="default", **fields):
        self.client.hset(f"sf:{{{queue}}}:job:{id}", mapping=fields)

    def test_a_task_is_a_job_with_its_path_in_a_header(self):
        due = datetime.now(timezone.utc) + timedelta(hours=1)
        result = tasks.build_report.using(run_after=due).enqueue(month="May")
        entry = self.entry("reports", ":high")
        self.assertEqual((entry["type"], entry["id"], entry["h.task"], entry["tracking"]), ("django.task", result.id, "shop.tasks.build_report", "all"))
        self.assertEqual((entry["max_attempts"], int(entry["run_at_ms"])), ("1", due.timestamp() * 1000 // 1))
        self.assertEqual(json.loads(entry["payload"])["kwargs"], {"month": "May"})
        found = tasks.build_report.get_result(result.id)
        self.assertEqual((str(found.status), found.kwargs, found.task.run_after, found.attempts), ("READY", {"month": "May"}, due, 0))
        self.assertGreater(self.client.ttl(f"sf-django:{result.id}"), 3 * 86400 + 3500)

    def test_a_task_succeeds_with_its_value_and_signals(self):
        result = tasks.charge.enqueue(7)
        self.assertEqual(self.play().result, [7, [7]])
        result.refresh()
        self.assertEqual((str(result.status), result.return_value, result.attempts, result.errors), ("SUCCESSFUL", [7, [7]], 1, []))
        self.assertLessEqual(result.started_at, result.finished_at)
        of = "StreamfleetBackend"
        self.assertEqual(self.seen, [("enqueued", of, "READY", 0), ("started", of, "RUNNING", 1), ("finished", of, "SUCCESSFUL", 1)])

    def test_a_result_outlives_the_record_of_the_fleet(self):
        done, failed = tasks.charge.enqueue(7), None
        self.play()
        self.client.delete(f"sf:{{default}}:job:{done.id}", "sf:{default}:jobs")
        self.assertEqual(tasks.charge.get_result(done.id).return_value, [7, [7]])
        failed = tasks.charge.enqueue(101)
        self.play()
        self.client.delete(f"sf:{{default}}:job:{failed.id}")
        self.assertEqual(str(tasks.charge.get_result(failed.id).status), "FAILED")
        with self.assertRaises(TaskResultDoesNotExist):
            tasks.charge.get_result("nothing")

    def test_a_task_that_fails_is_finished_after_its_last_attempt(self):
        result = tasks.flaky.enqueue("unit")
        self.play(attempt=1)
        result.refresh()
        self.assertEqual((str(result.status), result.attempts, len(result.errors)), ("READY", 1, 1))
        self.assertIsNone(result.finished_at)
        self.play(attempt=2)
        self.play(attempt=3)
        result.refresh()
        self.assertEqual((str(result.status), result.return_value, result.attempts, len(result.errors)), ("SUCCESSFUL", 3, 3, 2))
        self.assertIs(result.errors[0].exception_class, ConnectionError)
        self.assertEqual([name for name, *_ in self.seen].count("finished"), 1)

    def test_what_only_the_fleet_knows_is_an_error_too(self):
        for error, path in (("the attempt took longer than 1s", "builtins.RuntimeError"), ("shop.tasks.Declined: no", "shop.tasks.Declined"), ("KeyError: 'a'", "builtins.KeyError")):
            result = tasks.charge.enqueue(7)
            self.record(result.id, state="running")
            result.refresh()
            self.assertEqual(str(result.status), "RUNNING")
            self.record(result.id, state="dead", error=error)
            result.refresh()
            self.assertEqual((str(result.status), [(one.exception_class_path, one.traceback) for one in result.errors]), ("FAILED", [(path, error)]))

    def test_a_payload_calls_nothing_but_tasks(self):
        for path in ("os.getcwd", "shop.tasks.send_mail"):
            payload = {"task": path, "args": [], "kwargs": {}, "backend": "default", "queue_name": "default", "priority": 0, "run_after": None, "enqueued_at": None}
            self.assertIn(f"{path} is not a task", run(Job("django.task", payload), worker).error)

    def test_times_are_naive_if_django_has_no_time_zones(self):
        with override_settings(USE_TZ=False, TIME_ZONE="UTC"):
            due = datetime.now().replace(microsecond=0) + timedelta(hours=1)
            result = tasks.charge.using(run_after=due).enqueue(7)
            found = tasks.charge.get_result(result.id)
            self.assertEqual((found.task.run_after, found.enqueued_at.tzinfo), (due, None))

    def test_all_threads_share_one_client(self):
        def client(**options):
            return StreamfleetBackend("default", {"OPTIONS": options}).client

        self.assertIs(client(url="redis://127.0.0.1:1"), client(url="redis://127.0.0.1:1"))
        self.assertIs(client(client="tests.test_unit.made_client"), client(client="tests.test_unit.made_client"))

    def test_wrong_settings_are_named(self):
        with self.assertRaisesRegex(ImproperlyConfigured, "no option 'adress'"):
            StreamfleetBackend("default", {"OPTIONS": {"adress": "x"}})
        backend = StreamfleetBackend("default", {"OPTIONS": {"tasks": {"a.b": {"retries": 3}}}})
        self.assertEqual([message.id for message in backend.check()], ["streamfleet.E001"])
        self.assertEqual(list(self.backend.check()), [])

    def test_a_django_without_tasks_says_what_is_missing(self):
        code = "import sys; sys.modules.update({'django.tasks': None, 'django_tasks': None}); import streamfleet_django"
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr
        self.assertRegex(said, "ImproperlyConfigured: this Django has no tasks: pip install django-tasks")


if __name__ == "__main__":
    unittest.main()
