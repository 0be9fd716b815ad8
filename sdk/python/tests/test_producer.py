"""Producers with a real redis-py client and a real server."""

import asyncio
import json
import os
import socket
import threading
import time
import unittest
from datetime import timedelta

try:
    import redis
    import redis.asyncio
    from redis.backoff import NoBackoff
    from redis.retry import Retry
except ImportError:
    if os.environ.get("STREAMFLEET_CHECK"):
        raise
    raise unittest.SkipTest("redis-py is not installed") from None

import streamfleet
from streamfleet import AsyncProducer, BulkError, Gone, JobFailed, NotEnded, NotSent, Producer, Submission
from tests.server import Server


def setUpModule():
    global server
    server = Server()


def tearDownModule():
    server.stop()


class Proxy:
    """Passes requests on to the server, and loses every reply after the first ``replies``."""

    def __init__(self, port, replies=0):
        self.port, self.left = port, replies
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()[1]
        self.sockets = [self.listener]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            upstream = socket.create_connection(("127.0.0.1", self.port))
            self.sockets += [client, upstream]
            threading.Thread(target=self.serve, args=(client, upstream), daemon=True).start()

    def serve(self, client, upstream):
        try:
            while True:
                data = client.recv(65536)
                if not data:
                    break
                upstream.sendall(data)
                reply = upstream.recv(65536)
                if b"XADD" in data.upper():
                    self.left -= 1
                    if self.left < 0:
                        break
                client.sendall(reply)
        except OSError:
            pass
        finally:
            client.close()
            upstream.close()

    def close(self):
        for each in self.sockets:
            each.close()


class Base(unittest.TestCase):
    def setUp(self):
        self.raw = redis.Redis(port=server.port)
        self.raw.flushall()
        self.addCleanup(self.raw.close)

    def client(self, **options):
        client = redis.Redis(port=server.port, **options)
        self.addCleanup(client.close)
        return client

    def entries(self, key="sf:{default}:jobs"):
        return self.raw.xrange(key)


class Sending(Base):
    def test_a_job_is_one_entry(self):
        id = Producer(self.client()).enqueue("mail.send", {"to": "ann@example.com"})
        (entry, fields), = self.entries()
        self.assertEqual(entry.decode(), id)
        self.assertEqual(fields, {b"type": b"mail.send", b"payload": b'{"to":"ann@example.com"}'})
        self.assertEqual(self.raw.keys(), [b"sf:{default}:jobs"])

    def test_queue_lane_and_namespace_are_parts_of_the_key(self):
        producer = Producer(self.client(), queue="mail", namespace="app")
        low = producer.enqueue("x", lane="low")
        self.assertEqual(self.entries("app:{mail}:jobs:low")[0][0].decode() + "-low", low)
        producer.enqueue("x", priority=9, queue="other")
        self.assertEqual(len(self.entries("app:{other}:jobs:high")), 1)

    def test_an_id_of_ones_own_is_returned(self):
        self.assertEqual(Producer(self.client()).enqueue("x", id="order-7"), "order-7")

    def test_the_settings_of_the_client_change_nothing(self):
        payload = {"name": "Zoë 漢字"}
        expected = json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
        settings = [
            {},
            {"decode_responses": True},
            {"encoding": "latin-1"},
            {"decode_responses": True, "encoding": "latin-1"},
        ]
        if int(redis.__version__.split(".")[0]) >= 5:
            settings += [{"protocol": 3}, {"protocol": 3, "decode_responses": True}]
        for options in settings:
            with self.subTest(options):
                self.raw.flushall()
                producer = Producer(self.client(**options))
                id = producer.enqueue("x", payload, headers={"name": "Zoë"})
                producer.enqueue("x", b"\xff\x00")
                self.assertIsInstance(id, str)
                (_, first), (_, second) = self.entries()
                self.assertEqual(first[b"payload"], expected)
                self.assertEqual(first[b"h.name"], "Zoë".encode())
                self.assertEqual(second[b"payload"], b"\xff\x00")
                self.raw.hset(f"sf:{{default}}:job:{id}", mapping={"state": "done", "result": expected})
                self.assertEqual(producer.result(id), payload)

    def test_many_jobs_are_sent_in_few_round_trips(self):
        producer = Producer(self.client())
        producer.enqueue("x")
        before = self.raw.info("stats")["total_connections_received"]
        ids = producer.enqueue_many(Submission("x", {"n": n}, id=f"n-{n}" if n % 2 else None) for n in range(1201))
        self.assertEqual(self.raw.info("stats")["total_connections_received"], before)
        self.assertEqual(len(ids), 1201)
        self.assertEqual(ids[1], "n-1")
        self.assertEqual(ids[0], self.entries()[1][0].decode())
        self.assertEqual([json.loads(f.get(b"payload"))["n"] for _, f in self.entries()[1:]], list(range(1201)))
        self.assertEqual(producer.enqueue_many([]), [])

    def test_a_full_server_refuses_and_nothing_is_lost_silently(self):
        producer = Producer(self.client())
        self.raw.config_set("maxmemory", 1)
        self.addCleanup(self.raw.config_set, "maxmemory", 0)
        with self.assertRaises(redis.exceptions.ResponseError):
            producer.enqueue("x")
        with self.assertRaises(BulkError) as caught:
            producer.enqueue_many([Submission("x"), Submission("x")])
        self.assertEqual(caught.exception.ids, [None, None])
        self.assertIn("2 of 2 jobs were not confirmed", str(caught.exception))

    def test_one_refused_job_of_many_leaves_the_others(self):
        self.raw.set("sf:{broken}:jobs", "no stream")
        with self.assertRaises(BulkError) as caught:
            Producer(self.client()).enqueue_many([Submission("x"), Submission("x", queue="broken"), Submission("x")])
        ids, errors = caught.exception.ids, caught.exception.errors
        self.assertEqual([id is None for id in ids], [False, True, False])
        self.assertIsInstance(errors[1], redis.exceptions.ResponseError)
        self.assertEqual(len(self.entries()), 2)

    def test_a_lost_reply_submits_once_if_the_client_does_not_resend(self):
        proxy = Proxy(server.port)
        self.addCleanup(proxy.close)
        client = redis.Redis(port=proxy.address, retry=Retry(NoBackoff(), 0))
        self.addCleanup(client.close)
        with self.assertRaises(redis.exceptions.ConnectionError):
            Producer(client).enqueue("x")
        self.assertEqual(len(self.entries()), 1)

    def test_a_client_that_resends_submits_twice(self):
        # redis-py 6 and later does so by default, three times. It is why the README says what to do about it.
        proxy = Proxy(server.port)
        self.addCleanup(proxy.close)
        errors = [redis.exceptions.ConnectionError, redis.exceptions.TimeoutError]
        client = redis.Redis(port=proxy.address, retry=Retry(NoBackoff(), 1), retry_on_error=errors)
        self.addCleanup(client.close)
        with self.assertRaises(redis.exceptions.ConnectionError):
            Producer(client).enqueue("x", id="order-7")
        self.assertEqual([fields[b"id"] for _, fields in self.entries()], [b"order-7"] * 2)

    def test_after_a_broken_connection_nothing_more_is_sent(self):
        proxy = Proxy(server.port)
        self.addCleanup(proxy.close)
        client = redis.Redis(port=proxy.address, retry=Retry(NoBackoff(), 0))
        self.addCleanup(client.close)
        with self.assertRaises(BulkError) as caught:
            Producer(client).enqueue_many(Submission("x") for _ in range(1100))
        errors = caught.exception.errors
        self.assertEqual(len(errors), 1100)
        self.assertIsInstance(errors[499], redis.exceptions.ConnectionError)
        self.assertIsInstance(errors[500], NotSent)
        # The proxy may pass on the rest of the pipeline in pieces, so some of it may be missing, but nothing beyond it.
        self.assertLessEqual(len(self.entries()), 500)

    def test_the_login_producer_needs_no_more_than_xadd(self):
        self.raw.execute_command(
            *"ACL SETUSER producer on nopass resetkeys %W~sf:*:jobs %W~sf:*:jobs:high %W~sf:*:jobs:low resetchannels "
            "-@all +@connection -@dangerous +xadd".split()
        )
        producer = Producer(self.client(username="producer", password="x"))
        producer.enqueue("x", priority=10)
        producer.enqueue_many([Submission("x"), Submission("x", lane="low")])
        with self.assertRaises(redis.exceptions.NoPermissionError):
            producer.status("order-7")


class Looking(Base):
    def record(self, id, **fields):
        self.raw.hset(f"sf:{{default}}:job:{id}", mapping=fields)

    def test_a_record_is_read_as_a_status(self):
        self.record("a", state="retrying", type="x", created_ms=1700000000000, error="no", progress=40, note="p3", more=1)
        status = Producer(self.client()).status("a")
        self.assertEqual((status.state, status.type, status.created_ms), ("retrying", "x", 1700000000000))
        self.assertEqual((status.error, status.progress, status.note, status.ended), ("no", 40.0, "p3", False))
        self.assertIsNone(status.value())

    def test_a_job_without_a_record_is_not_known(self):
        producer = Producer(self.client())
        self.assertIsNone(producer.status(producer.enqueue("x")))
        self.assertIsNone(producer.result("nobody"))
        with self.assertRaises(ValueError):
            producer.status("not an id")

    def test_results_are_json_or_bytes(self):
        producer = Producer(self.client())
        for text, value in (
            ('{"n":1}', {"n": 1}),
            ("18446744073709551615", 2**64 - 1),
            ('{"encoding":"base64","data":"/wA="}', b"\xff\x00"),
            ('{"encoding":"base64","data":"/wA=","more":1}', {"encoding": "base64", "data": "/wA=", "more": 1}),
            ("not JSON", "not JSON"),
        ):
            self.record("r", state="done", result=text)
            self.assertEqual(producer.result("r"), value)

    def test_dead_and_cancelled_jobs_have_no_result(self):
        self.record("d", state="dead", error="no such customer")
        producer = Producer(self.client())
        with self.assertRaisesRegex(JobFailed, "no such customer"):
            producer.result("d")

    def test_waiting_ends_with_the_job(self):
        producer = Producer(self.client())
        threading.Timer(0.2, self.record, ["w"], {"state": "done", "result": "7"}).start()
        self.assertEqual(producer.wait("w", timedelta(seconds=20)).value(), 7)

    def test_waiting_has_a_limit(self):
        self.record("w", state="running")
        begun = time.monotonic()
        with self.assertRaises(NotEnded) as caught:
            Producer(self.client()).wait("w", 0.3)
        self.assertGreaterEqual(time.monotonic() - begun, 0.29)
        self.assertEqual(caught.exception.state, "running")
        self.assertIsInstance(caught.exception, TimeoutError)

    def test_waiting_for_a_job_whose_record_is_gone_ends(self):
        self.record("w", state="running")
        threading.Timer(0.2, self.raw.delete, ["sf:{default}:job:w"]).start()
        with self.assertRaises(Gone):
            Producer(self.client()).wait("w", 20)

    def test_an_error_of_a_lookup_is_raised(self):
        self.raw.set("sf:{default}:job:odd", "no hash")
        with self.assertRaises(redis.exceptions.ResponseError):
            Producer(self.client()).status("odd")


class Asynchronous(Base):
    def test_everything_works_with_asyncio(self):
        async def walk():
            client = redis.asyncio.Redis(port=server.port, decode_responses=True)
            producer = AsyncProducer(client)
            id = await producer.enqueue("x", {"n": 1}, tracking="all")
            ids = await producer.enqueue_many(Submission("x") for _ in range(600))
            self.assertEqual(len(set(ids)), 600)
            self.assertIsNone(await producer.status(id))
            with self.assertRaisesRegex(NotEnded, f"has no record: .*`streamfleet status {id}`.*tracking='all'"):
                await producer.wait(id, 0.05)
            self.raw.hset(f"sf:{{default}}:job:{id}", mapping={"state": "done", "result": "[1]"})
            self.assertEqual((await producer.wait(id, 5)).value(), [1])
            self.assertEqual(await producer.result(id), [1])
            self.raw.set("sf:{broken}:jobs", "no stream")
            with self.assertRaises(BulkError):
                await producer.enqueue_many([Submission("x", queue="broken")])

            worker = streamfleet.Worker()

            @worker.job("y", priority=9)
            async def handler(job):
                return None

            await handler.enqueue({"n": 2}, producer=producer)
            self.assertEqual(len(self.entries("sf:{default}:jobs:high")), 1)
            await (client.aclose if hasattr(client, "aclose") else client.close)()

        asyncio.run(walk())


if __name__ == "__main__":
    unittest.main()
