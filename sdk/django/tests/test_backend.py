"""The application of tests/site: first on Django's database backend, then on streamfleet, with other settings and nothing else."""

import json
import os
import signal
import unittest

from tests.fleet import BIN, Fleet

SECONDS = "180"


def seen_by(test, backend, **options):
    fleet = Fleet(backend, **options)
    test.addCleanup(fleet.stop)
    fleet.work()
    return json.loads(fleet.script("flow.py", SECONDS))


@unittest.skipUnless(BIN, "STREAMFLEET_BIN is not set: the tests with the real program are skipped")
class Application(unittest.TestCase):
    maxDiff = None

    def test_it_sees_the_same_as_on_the_database_backend(self):
        try:
            import django_tasks_db  # noqa: F401
        except ImportError:
            self.skipTest("django-tasks-db is not installed")
        self.assertEqual(seen_by(self, "streamfleet"), seen_by(self, "database"))

    def test_it_sees_what_its_tasks_do(self):
        seen = seen_by(self, "streamfleet")
        self.assertEqual((seen["waiting"], seen["late"]), ("READY", True))
        self.assertEqual(seen["mails"], ["Subject: The report", "Subject: Welcome", "To: ann@example.com, bob@example.com", "To: boss@example.com"])
        self.assertEqual(seen["report"]["value"], {"month": "November", "attempt": 1, "mailed": True, "at": "2026-11-01"})
        self.assertEqual(seen["declined"]["errors"], [["shop.tasks.Declined", "shop.tasks.Declined: 101 is too much"]])
        self.assertEqual(seen["charged"]["value"], [7, [7]])
        self.assertEqual(seen["unserializable"]["status"], "FAILED")


@unittest.skipUnless(BIN, "STREAMFLEET_BIN is not set: the tests with the real program are skipped")
class Tasks(unittest.TestCase):
    def setUp(self):
        self.fleet = Fleet("streamfleet")
        self.addCleanup(self.fleet.stop)

    def results(self, code):
        """Runs code that makes ``results``, and returns the status, errors and attempts of each at its end."""
        return json.loads(
            self.fleet.script(
                "import json, time\nfrom shop import tasks\n" + code + "\n"
                "until = time.monotonic() + 180\n"
                "while not all(result.is_finished for result in results) and time.monotonic() < until:\n"
                "    time.sleep(0.02)\n"
                "    for result in results: result.refresh()\n"
                "print(json.dumps([[str(r.status), [(e.exception_class_path, e.traceback) for e in r.errors], r.attempts] for r in results]))"
            )
        )

    def test_a_task_may_have_more_attempts_and_less_time(self):
        self.fleet.work()
        flaky, hung, killed = self.results("results = [tasks.flaky.enqueue('a'), tasks.hang.enqueue(), tasks.die.enqueue()]")
        self.assertEqual((flaky[0], flaky[2]), ("SUCCESSFUL", 3))
        self.assertEqual([path for path, _ in flaky[1]], ["builtins.ConnectionError"] * 2)
        self.assertEqual((hung[0], len(hung[1])), ("FAILED", 1))
        self.assertRegex(hung[1][0][1], "1s|timed out|timeout")
        self.assertEqual((killed[0], killed[2]), ("FAILED", 1))
        self.assertRegex(killed[1][0][1], "signal: 9")

    def test_workers_that_are_killed_lose_nothing(self):
        self.fleet.env["STREAMFLEET__WORKER__LEASE"] = "5s"
        count = 400
        self.fleet.script(f"from shop import tasks\nfor n in range({count}): tasks.note.enqueue(n, seconds=0.01)")
        killed = 0
        self.fleet.work()
        while killed < 3:
            self.fleet.until(lambda: len(self.fleet.notes()) > (killed + 1) * 40, "tasks run")
            os.kill(self.fleet.workers[-1].pid, signal.SIGKILL)
            killed += 1
            self.fleet.work()
        self.fleet.until(lambda: len(self.fleet.notes()) == count, "all tasks run")
        self.assertEqual(self.fleet.notes(), set(range(count)))

    def test_a_worker_that_is_asked_to_stop_ends_its_tasks_first(self):
        self.fleet.script("from shop import tasks\ntasks.note.enqueue(1, seconds=1)")
        process = self.fleet.work()
        self.fleet.until(lambda: "R" in self.status_of_all(), "the task runs")
        process.terminate()
        self.assertEqual(process.wait(180), 0)
        self.assertEqual(self.fleet.notes(), {1})

    def status_of_all(self):
        import redis

        with redis.Redis(port=self.fleet.server.port) as client:
            return ["R" for key in client.keys("sf-django:*") if client.hexists(key, "attempt:1")]

    def test_the_command_prints_what_a_worker_needs(self):
        printed = self.fleet.manage("streamfleet_worker", "--print-config")
        for part in ('[queues."reports"]', '"-m", "streamfleet_django"', '[types."django.task"]', 'DJANGO_SETTINGS_MODULE" = "site_settings"', '"SHOP_FOLDER"'):
            self.assertIn(part, printed)
        self.assertNotIn(self.fleet.server.url, printed.replace("SHOP_REDIS", ""))


if __name__ == "__main__":
    unittest.main()
