"""The HTTP producer: with a real console, and with one that is played and loses answers."""

import asyncio
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from datetime import datetime, timedelta, timezone

from streamfleet import AsyncHttp, BulkError, Gone, Http, Invalid, JobFailed, NotEnded, Refused, Submission, Unconfirmed
from streamfleet import _http as module
from tests.console import BIN, Console, Played
from tests.pool import environment
from tests.server import free_port

NEW = (201, {}, b'{"id":"key-1","state":"waiting","existing":false}')
OLD = (200, {}, b'{"id":"key-1","state":"waiting","existing":true}')
TOKEN = Console.token("shop")


class Playing(unittest.TestCase):
    def played(self, *answers, **options):
        played = Played(*answers)
        self.addCleanup(played.stop)
        return played, Http(played.url, TOKEN, **options)

    def test_a_lost_answer_is_asked_for_again_with_the_same_key(self):
        played, http = self.played(None, (503, {"Retry-After": "0"}, b'{"detail":"no redis"}'), OLD)
        self.assertTrue(http.enqueue("a", {"n": 1}).is_new)
        keys = {headers["Idempotency-Key"] for _, _, headers, _ in played.requests}
        bodies = {body for _, _, _, body in played.requests}
        self.assertEqual((len(played.requests), len(keys), len(bodies)), (3, 1, 1))
        # The key of a call need not be remembered for a day.
        self.assertEqual(json.loads(bodies.pop())["idempotent_for"], 120_000)

    def test_a_key_of_the_caller_and_an_id_are_what_the_api_compares(self):
        played, http = self.played(NEW, OLD, OLD)
        http.send(Submission("a"), key="order-7")
        self.assertFalse(http.send(Submission("a"), key="order-7").is_new)
        http.enqueue("a", id="order-7")
        self.assertEqual([headers.get("Idempotency-Key") for _, _, headers, _ in played.requests], ["order-7", "order-7", None])
        for wrong in ("", "a b", "ä", "x" * 256):
            with self.subTest(wrong), self.assertRaisesRegex(ValueError, "key must be"):
                http.send(Submission("a"), key=wrong)

    def test_a_connection_is_used_again_and_replaced_when_it_has_ended(self):
        played, http = self.played(NEW, (201, {"Connection": "close"}, NEW[2]), NEW)
        for _ in range(3):
            http.enqueue("a")
        self.assertEqual(len(played.requests), 3)

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
    def test_certificates_are_checked_and_the_connection_stays_open(self):
        with tempfile.TemporaryDirectory() as folder:
            names = [os.path.join(folder, name) for name in ("cert.pem", "key.pem")]
            make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]
            subprocess.run([*make, "-out", names[0], "-keyout", names[1]], check=True, capture_output=True)
            server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            server.load_cert_chain(*names)
            played = Played(NEW, NEW, context=server)
            self.addCleanup(played.stop)
            http = Http(played.url, TOKEN, context=ssl.create_default_context(cafile=names[0]))
            for _ in range(2):
                self.assertTrue(http.enqueue("a").is_new)
            self.assertEqual(len({port for _, _, headers, _ in played.requests for port in [headers["port"]]}), 1)
            with self.assertRaisesRegex(Refused, "cannot connect.*CERTIFICATE_VERIFY_FAILED"):
                Http(played.url, TOKEN, timeout=1).enqueue("a")

    def test_nobody_knows_what_became_of_a_job_if_no_answer_came(self):
        _, http = self.played(*[None] * module.ATTEMPTS)
        with self.assertRaisesRegex(Unconfirmed, f"attempt {module.ATTEMPTS}"):
            http.enqueue("a")
        _, http = self.played(*[(429, {"Retry-After": "0"}, b'{"detail":"the queue is full"}')] * module.ATTEMPTS)
        with self.assertRaisesRegex(Refused, "429: the queue is full"):
            http.enqueue("a")
        _, http = self.played((504, {}, b'{"type":"urn:streamfleet:problem:the-durability-is-not-confirmed","detail":"no replica"}'))
        with self.assertRaisesRegex(Unconfirmed, "no replica"):
            http.enqueue("a")
        with self.assertRaisesRegex(Refused, "cannot connect"):
            Http(f"http://127.0.0.1:{free_port()}", TOKEN).enqueue("a")

    def test_a_call_takes_no_longer_than_its_timeout(self):
        _, http = self.played((429, {"Retry-After": "600"}, b"{}"), timeout=5)
        begun = time.monotonic()
        with self.assertRaises(Refused):
            http.enqueue("a")
        self.assertLess(time.monotonic() - begun, 5)

    def test_errors_say_what_to_do(self):
        wrong = b'{"detail":"/delay: too long","errors":[{"at":"/delay","detail":"too long"}]}'
        for answer, error, text in (
            ((422, {}, wrong), Invalid, "/delay: too long"),
            ((401, {}, b'{"detail":"no token"}'), Refused, "console token"),
            ((403, {}, b'{"detail":"not allowed"}'), Refused, "role for this queue"),
            ((404, {}, b"<html>nothing here"), Refused, "without /api/v1"),
            ((200, {}, b"<html>welcome"), Unconfirmed, "without JSON"),
            ((500, {}, b""), Unconfirmed, "no reason"),
        ):
            with self.subTest(answer):
                _, http = self.played(answer)
                with self.assertRaisesRegex(error, text) as raised:
                    http.enqueue("a")
                if error is Invalid:
                    self.assertEqual(raised.exception.fields, {"/delay": "too long"})
        for url in ("jobs.example.com", "ftp://x", "http://", "http://user@x"):
            with self.subTest(url), self.assertRaisesRegex(ValueError, "address of the console"):
                Http(url, TOKEN)
        for token in ("", "ä", None):
            with self.subTest(token), self.assertRaisesRegex(ValueError, "console token"):
                Http("http://x", token)

    def test_what_became_of_a_job_is_a_status(self):
        dead = b'{"id":"a","state":"dead","type":"t","created_ms":5,"error":"no such customer","progress":{"percent":40,"note":"half"},"result":null}'
        _, http = self.played((200, {}, dead), (200, {}, dead), (404, {}, b"{}"))
        status = http.status("a")
        self.assertEqual((status.type, status.created_ms, status.progress, status.note), ("t", 5, 40, "half"))
        with self.assertRaisesRegex(JobFailed, "no such customer"):
            http.result("a")
        self.assertIsNone(http.result("a"))

    def test_many_jobs_keep_their_key_when_an_answer_was_cut_off(self):
        first, last = b'{"line":1,"id":"a","existing":false}\n', b'{"done":true,"accepted":2}\n'
        second = b'{"line":2,"problem":{"status":422,"detail":"no such type"}}\n'
        played, http = self.played((200, {}, first), (200, {}, first + second + last))
        with self.assertRaises(BulkError) as raised:
            http.enqueue_many([Submission("a"), Submission("b")])
        self.assertEqual(raised.exception.ids, ["a", None])
        self.assertRegex(str(raised.exception.errors[1]), "no such type")
        self.assertEqual(len({headers["Idempotency-Key"] for _, _, headers, _ in played.requests}), 1)
        played, http = self.played((403, {}, b"{}"))
        with self.assertRaises(BulkError) as raised:
            http.enqueue_many([Submission("a"), Submission("b", queue="other")])
        self.assertEqual([type(error).__name__ for error in raised.exception.errors], ["Refused", "NotSent"])

    def test_a_program_with_handlers_does_not_load_what_only_this_needs(self):
        code = "import sys, streamfleet; assert 'http.client' not in sys.modules; from streamfleet import Http; assert 'http.client' in sys.modules"
        ended = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))

    def test_what_the_api_cannot_take_is_refused_before_it_is_sent(self):
        http = Http("http://127.0.0.1:1", TOKEN)
        for options in ({"tracking": "none"}, {"payload": b"\x01", "encoding": "msgpack"}, {"payload": b"\xff"}):
            with self.subTest(options), self.assertRaisesRegex(ValueError, "with a Producer"):
                http.enqueue("a", **options)
        with self.assertRaisesRegex(ValueError, "one queue"):
            http.batch("b", [Submission("a", queue="other")], Submission("c"))
        with self.assertRaisesRegex(ValueError, "Cli.batch"):
            http.batch("b", [Submission("a", "x" * 1_000_000)] * 10, Submission("c"))


@unittest.skipUnless(BIN, "STREAMFLEET_BIN is not set: the tests with the real program are skipped")
class Real(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.console = Console()
        cls.addClassCleanup(cls.console.stop)

    def setUp(self):
        self.http = Http(self.console.url, TOKEN)

    def end(self, id, state="done", **record):
        """Ends a job as a worker does, as far as its record says."""
        import redis

        with redis.Redis(port=self.console.server.port) as client:
            client.hset(f"sf:{{default}}:job:{id}", mapping={"state": state, **record})

    def test_an_id_is_accepted_once_and_a_unique_key_keeps_others_out(self):
        first = self.http.enqueue("mail.send", {"to": "Ännchen"}, id="order-1", headers={"tenant": "9"}, delay=60, then=[{"type": "b"}])
        self.assertEqual((first.id, first.state, first.is_new), ("order-1", "scheduled", True))
        self.assertFalse(self.http.enqueue("mail.send", {}, id="order-1").is_new)
        one = self.http.enqueue("report", {"n": 1}, unique="report-1")
        two = self.http.enqueue("report", {"n": 2}, unique="report-1", unique_scope=3600)
        self.assertEqual((one.is_new, two.is_new, two.id), (True, False, one.id))
        three = self.http.enqueue("report", {"n": 3}, unique="report-1", unique_mode="replace")
        self.assertEqual((three.is_new, three.replaced), (True, one.id))
        later = self.http.enqueue("report", {"n": 4}, unique="later", delay=600)
        debounced = self.http.enqueue("report", {"n": 5}, unique="later", unique_mode="debounce", delay=900)
        self.assertEqual((debounced.id, debounced.is_debounced, debounced.is_new), (later.id, True, False))

    def test_all_options_arrive(self):
        in_an_hour = datetime.now(timezone.utc) + timedelta(hours=1)
        job = Submission(
            "big",
            "x" * (1 << 20),
            id="all",
            run_at=in_an_hour,
            expires_at=in_an_hour + timedelta(hours=1),
            lane="low",
            tracking="all",
            max_attempts=3,
            timeout=1.5,
            on_success="c",
            on_failure="d",
            queue="other",
        )
        self.assertTrue(self.http.send(job, idempotent_for=3600, durability="memory").is_new)
        status = self.http.status("all", queue="other")
        self.assertEqual((status.state, status.type), ("scheduled", "big"))
        self.assertIsNone(self.http.status("nothing"))
        with self.assertRaises(Invalid) as raised:
            self.http.enqueue("a", unique="key", unique_mode="sometimes")
        self.assertEqual(list(raised.exception.fields), ["/unique_mode"])

    def test_two_calls_are_two_jobs_and_a_key_is_one(self):
        ids = {self.http.enqueue("a", 1).id, self.http.enqueue("a", 1).id}
        self.assertEqual(len(ids), 2)
        first, again = self.http.send(Submission("a", 1), key="once"), self.http.send(Submission("a", 1), key="once")
        self.assertEqual((first.id, first.is_new, again.is_new), (again.id, True, False))

    def test_a_job_is_waited_for(self):
        ended = threading.Thread(target=self.end, args=("waits",), kwargs={"result": '{"sent":true}'})
        self.http.enqueue("a", id="waits")
        with self.assertRaises(NotEnded):
            self.http.wait("waits", timeout=0.05)
        with self.assertRaises(NotEnded):
            self.http.run(Submission("a", id="runs"), timeout=0.05)
        ended.start()
        status = self.http.wait("waits", timeout=60)
        ended.join()
        self.assertEqual((status.state, status.value(), self.http.result("waits")), ("done", {"sent": True}, {"sent": True}))
        self.assertEqual(self.http.run(Submission("a", id="waits"), timeout=60).value(), {"sent": True})
        with self.assertRaisesRegex(Gone, "tracking='all'"):
            self.http.wait("nothing", timeout=60)

    def test_a_token_that_may_not_see_results_says_so(self):
        self.http.enqueue("a", id="secret")
        self.end("secret", result='{"card":4711}')
        with self.assertRaisesRegex(Refused, "403"):
            Http(self.console.url, Console.token("blind")).result("secret")
        self.assertEqual(self.http.result("secret"), {"card": 4711})
        self.http.enqueue("a", id="stars")
        self.end("stars", result='"***"')
        self.assertEqual(self.http.result("stars"), "***")
        with self.assertRaisesRegex(Refused, "role for this queue"):
            Http(self.console.url, Console.token("viewer")).enqueue("a")
        with self.assertRaisesRegex(Refused, "console token"):
            Http(self.console.url, "nobody").enqueue("a")

    def test_many_jobs_are_sent_in_few_requests(self):
        jobs = [Submission("many", n, queue="many" if n % 700 else "few", id=f"many-{n}") for n in range(1200)]
        self.assertEqual(self.http.enqueue_many(jobs), [f"many-{n}" for n in range(1200)])
        self.assertEqual(self.http.enqueue_many(jobs[:2]), ["many-0", "many-1"])

    def test_a_batch_is_opened_once_and_followed(self):
        members = [Submission("invoice.send", {"invoice": n}) for n in range(2)]
        for _ in range(2):
            ids = self.http.batch("invoices", members, Submission("invoice.total", {"month": 11}))
            self.assertEqual(ids, ["invoices.0", "invoices.1"])
        batch = self.http.batch_status("invoices")
        self.assertEqual((batch.state, batch.members, batch.left, list(batch.waiting_for)), ("closed", 2, 2, ids))
        self.assertIsNone(self.http.batch_status("nothing"))
        with self.assertRaises(Invalid) as raised:
            self.http.batch("wrong", members, Submission("invoice.total", delay=5))
        self.assertRegex(str(raised.exception), "delay")

    def test_threads_and_tasks_share_it(self):
        ids = []
        threads = [threading.Thread(target=lambda n=n: ids.append(self.http.enqueue("a", id=f"thread-{n}").id)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(set(ids)), 8)

        async def main():
            http = AsyncHttp(self.console.url, TOKEN, queue="tasks")
            accepted = await asyncio.gather(*(http.enqueue("a", id=f"task-{n}") for n in range(8)))
            self.assertTrue(all(one.is_new for one in accepted))
            self.assertEqual((await http.status("task-3")).state, "waiting")
            self.assertIsNone(await http.result("task-3"))
            self.assertEqual(await http.enqueue_many([Submission("a", id="many")]), ["many"])
            with self.assertRaises(NotEnded):
                await http.run(Submission("a", id="task-1"), timeout=0.05)
            with self.assertRaises(NotEnded):
                await http.wait("task-1", timeout=0.05)

        asyncio.run(main())


if __name__ == "__main__":
    unittest.main()
