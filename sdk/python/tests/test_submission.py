"""What a submission becomes, and what it refuses. No server is needed."""

import unittest
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from unittest.mock import Mock

import streamfleet
from streamfleet import Producer, Submission


def fields(*args, **options):
    return {name.decode(): value for name, value in Submission(*args, **options).fields}


class Fields(unittest.TestCase):
    def test_every_option_is_a_field_of_the_wire_contract(self):
        sent = fields(
            "mail.send",
            {"to": "ann@example.com", "ü": [1, None]},
            id="order-7",
            delay=60,
            run_at=datetime(2026, 12, 1, tzinfo=timezone.utc),
            expires_at=1796083200.5,
            max_attempts=4,
            timeout=timedelta(minutes=1),
            tracking="all",
            on_success="mail.sent",
            on_failure="mail.failed",
            then=[{"type": "b", "payload": {"n": 1}, "on_failure": "c", "queue": "mail"}],
            traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            headers={"tenant": "9"},
        )
        self.assertEqual(
            sent,
            {
                "type": b"mail.send",
                "payload": '{"to":"ann@example.com","ü":[1,null]}'.encode(),
                "id": b"order-7",
                "delay_ms": b"60000",
                "run_at_ms": b"1796083200000",
                "expires_at_ms": b"1796083200500",
                "max_attempts": b"4",
                "timeout_ms": b"60000",
                "tracking": b"all",
                "on_success": b"mail.sent",
                "on_failure": b"mail.failed",
                "then": b'[{"type":"b","payload":{"n":1},"on_failure":"c","queue":"mail"}]',
                "traceparent": b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                "h.tenant": b"9",
            },
        )

    def test_bytes_are_sent_as_they_are(self):
        self.assertEqual(fields("x", b"\xff\x00"), {"type": b"x", "payload": b"\xff\x00", "encoding": b"raw"})
        self.assertEqual(fields("x", bytearray(b"\x81"), encoding="msgpack")["encoding"], b"msgpack")
        self.assertEqual(fields("x", memoryview(b"{}"), encoding="json"), {"type": b"x", "payload": b"{}"})
        with self.assertRaises(TypeError):
            fields("x", {"n": 1}, encoding="msgpack")

    def test_times_are_whole_milliseconds(self):
        for delay, ms in ((0.1, b"100"), (0.07, b"70"), (1e-9, b"0"), (1 / 3, b"333"), (timedelta(days=400), b"34560000000")):
            self.assertEqual(fields("x", delay=delay)["delay_ms"], ms)
        self.assertEqual(fields("x", run_at=1796083200.1234567)["run_at_ms"], b"1796083200123")
        late = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc)
        self.assertEqual(fields("x", run_at=late)["run_at_ms"], b"253402300799999")
        east = datetime(2026, 12, 1, 2, tzinfo=timezone(timedelta(hours=2)))
        self.assertEqual(fields("x", run_at=east)["run_at_ms"], b"1796083200000")

    def test_times_that_cannot_be_meant_are_refused(self):
        for options in (
            {"run_at": datetime(2026, 12, 1)},
            {"run_at": 1796083200123},
            {"run_at": -1},
            {"run_at": 60},
            {"expires_at": 60},
            {"delay": -0.5},
            {"delay": float("nan")},
            {"delay": float("inf")},
            {"timeout": 0},
            {"timeout": timedelta(days=8)},
        ):
            with self.subTest(options), self.assertRaises(ValueError):
                fields("x", **options)
        for options in ({"delay": "5"}, {"delay": True}, {"run_at": "2026-12-01"}, {"run_at": date(2026, 12, 1)}, {"id": 7}, {"batch": 7}, {"then": ["mail.send"]}):
            with self.subTest(options), self.assertRaises(TypeError):
                fields("x", **options)

    def test_json_that_others_cannot_read_is_refused(self):
        for payload in (float("nan"), {"n": float("inf")}, "\udc80", 2**64, [-(2**63) - 1]):
            with self.subTest(payload), self.assertRaises(ValueError):
                fields("x", payload)
        for payload in (datetime.now(timezone.utc), Decimal("1.5"), {b"key": 1}, {1, 2}):
            with self.subTest(payload), self.assertRaises(TypeError):
                fields("x", payload)

    def test_whole_numbers_of_64_bits_are_sent_exactly(self):
        self.assertEqual(fields("x", [2**63, 2**64 - 1, -(2**63)])["payload"], b"[9223372036854775808,18446744073709551615,-9223372036854775808]")
        self.assertEqual(fields("x", {"digits": "9" * 40})["payload"], b'{"digits":"' + b"9" * 40 + b'"}')

    def test_json_default_turns_other_values_into_json(self):
        when = datetime(2026, 12, 1, tzinfo=timezone.utc)
        sent = fields("x", {"at": when}, json_default=lambda value: value.isoformat())
        self.assertEqual(sent["payload"], b'{"at":"2026-12-01T00:00:00+00:00"}')

    def test_a_priority_stands_for_a_lane(self):
        lanes = [Submission("x", priority=priority).lane for priority in range(1, 11)]
        self.assertEqual(lanes, ["low"] * 3 + ["normal"] * 4 + ["high"] * 3)
        self.assertEqual(Submission("x", lane="low").lane, "low")
        for options in ({"priority": 0}, {"priority": 11}, {"priority": 5.0}, {"priority": 5, "lane": "low"}, {"lane": "fast"}):
            with self.subTest(options), self.assertRaises(ValueError):
                Submission("x", **options)

    def test_what_a_worker_would_bury_as_malformed_is_refused(self):
        for args, options in (
            (("Mail.Send",), {}),
            (("",), {}),
            (("x" * 129,), {}),
            (("x",), {"queue": "Default"}),
            (("x",), {"queue": "a:b"}),
            (("x",), {"id": ""}),
            (("x",), {"id": "a b"}),
            (("x",), {"id": "a\nb"}),
            (("x",), {"id": "a\u00a0b"}),
            (("x",), {"id": "ü" * 65}),
            (("x",), {"id": "1700000000000-0"}),
            (("x",), {"id": "1700000000000-0-high"}),
            (("x",), {"max_attempts": 0}),
            (("x",), {"max_attempts": 2**32}),
            (("x",), {"max_attempts": 4.0}),
            (("x",), {"max_attempts": True}),
            (("x",), {"tracking": "yes"}),
            (("x",), {"on_success": "No"}),
            (("x",), {"headers": {"": "x"}}),
            (("x",), {"headers": {"a": "x" * 8193}}),
            (("x",), {"headers": {str(n): "" for n in range(1000)}}),
            (("x",), {"then": [{"payload": 1}]}),
            (("x",), {"then": [{"type": "b", "delay": 1}]}),
            (("x",), {"then": [{"type": "b", "queue": "No"}]}),
            (("x",), {"then": [{"type": "b"}] * 65}),
            (("x",), {"then": [{"type": "b", "payload": "x" * 65536}]}),
            (("x", "x" * (8 * 1024 * 1024)), {}),
            (("x", b""), {"encoding": "yaml"}),
        ):
            with self.subTest(str((args, options))[:80]), self.assertRaises(ValueError):
                fields(*args, **options)
        with self.assertRaises(TypeError):
            fields("x", headers={"tenant": 9})

    def test_an_option_that_does_not_exist_is_refused_with_the_one_that_is_meant(self):
        for option, text in (
            ("retries", "there is no option 'retries': use max_attempts, which counts the first attempt too"),
            ("countdown", "there is no option 'countdown': use delay"),
            ("track", "there is no option 'track': use tracking"),
            ("max_attempt", "there is no option 'max_attempt': use max_attempts"),
            ("expires_in", r"there is no option 'expires_in': use expires_at, a time: time.time\(\) \+ 60"),
            ("xyz", "there is no option 'xyz': use queue, lane, priority, delay, "),
            ("bind", "there is no option 'bind': use queue, .* What the handler gets is the payload"),
        ):
            for submit in (Producer(Mock()).enqueue, streamfleet.Cli(["false"]).enqueue, streamfleet.Worker().job):
                with self.subTest(option), self.assertRaisesRegex(TypeError, text):
                    submit("x", **{option: 1})

    def test_what_is_no_submission_is_refused_with_what_to_use(self):
        cli, job = streamfleet.Cli(["false"]), Submission("x")
        for submit in (
            lambda: Producer(Mock()).enqueue_many([{"type": "x"}]),
            lambda: cli.batch("b", [("x", 1)], job),
            lambda: cli.batch("b", [job], "x"),
        ):
            with self.assertRaisesRegex(TypeError, r"use Submission\(type, payload\), not (dict|tuple|str)"):
                submit()
        with self.assertRaisesRegex(ValueError, "a batch needs a member"):
            cli.batch("b", [], job)
        with self.assertRaisesRegex(TypeError, "id must be text, not 7"):
            Producer(Mock()).wait(7)

    def test_what_json_lacks_is_refused_with_what_to_do(self):
        with self.assertRaisesRegex(TypeError, "datetime is not JSON serializable: json_default=str sends it as text"):
            fields("x", {"at": datetime.now(timezone.utc)})
        with self.assertRaisesRegex(TypeError, "^keys must be"):
            fields("x", {(1, 2): 1})

    def test_a_producer_refuses_a_unique_key_with_what_to_use(self):
        with self.assertRaisesRegex(ValueError, "streamfleet.Http or Cli"):
            Producer(Mock()).enqueue("x", unique="report-2026-11")
        with self.assertRaisesRegex(ValueError, "need unique"):
            fields("x", unique_mode="replace")


if __name__ == "__main__":
    unittest.main()
