"""The fakes, and the inline mode that runs handlers without a worker."""

import asyncio
import unittest

import streamfleet
from streamfleet import Done, Drop, Fatal, Job, Retry, Snooze, Submission, Worker
from streamfleet.testing import AsyncFakeHttp, AsyncFakeProducer, FakeHttp, FakeProducer, arun, run


def shop():
    """A worker with handlers that submit jobs, fail and succeed."""
    worker = Worker()

    @worker.job("mail.send", max_attempts=3)
    def send(job):
        if job.payload["to"] == "nobody":
            raise Fatal("no such address")
        if job.payload["to"] == "busy" and job.attempt < 3:
            raise ConnectionError("the relay is busy")
        job.progress(100, "sent")
        job.log("sent", to=job.payload["to"])
        return {"sent": job.payload["to"]}

    @worker.job("order.pay")
    def pay(job):
        return [job.payload["order"]]

    @worker.job("note")
    def note(job):
        return job.payload

    @worker.job("sell")
    def sell(job):
        return Drop("sold out") if job.payload else Snooze(60, "closed")

    worker.errors({ZeroDivisionError: "fatal"})
    return worker


class Recording(unittest.TestCase):
    def test_a_job_is_found_by_a_part_of_its_payload(self):
        fake = FakeProducer()
        fake.assert_nothing_enqueued()
        id = fake.enqueue("mail.send", {"to": "ann", "lang": "de", "cc": ("bob",)}, queue="mail", priority=9, delay=60, headers={"tenant": "9"})
        (found,) = fake.assert_enqueued("mail.send", {"to": "ann"})
        self.assertEqual((found.id, found.queue, found.lane, found.headers), (id, "mail", "high", {"tenant": "9"}))
        self.assertEqual((found.payload["cc"], found.fields), (["bob"], {"delay_ms": "60000"}))
        fake.assert_enqueued("mail.send", queue="mail")
        fake.assert_enqueued("mail.send", {"to": "bob"}, times=0)
        for wrong in (("mail.send", {"to": "bob"}), ("mail.fetch",)):
            with self.assertRaisesRegex(AssertionError, "found 0; enqueued were: mail.send {'to': 'ann'"):
                fake.assert_enqueued(*wrong)
        with self.assertRaisesRegex(AssertionError, "expected 1 × mail.send in default, found 0"):
            fake.assert_enqueued("mail.send", queue="default")
        with self.assertRaisesRegex(AssertionError, "expected no jobs"):
            fake.assert_nothing_enqueued()
        fake.clear()
        fake.assert_nothing_enqueued()

    def test_what_a_producer_refuses_a_fake_refuses(self):
        for wrong, options in (("Mail", {}), ("a", {"countdown": 5}), ("a", {"delay": -1}), ("a", {"unique": "x"})):
            with self.subTest(wrong), self.assertRaises((TypeError, ValueError)):
                FakeProducer().enqueue(wrong, **options)

    def test_each_fake_answers_as_what_it_stands_for(self):
        def both(fake):
            return [fake.enqueue("a", id="x"), fake.enqueue("a", id="x"), fake.enqueue("b")]

        self.assertEqual(both(FakeProducer()), ["x", "x", "fake-3"])
        accepted = both(FakeHttp())
        self.assertEqual([(one.id, one.is_new, one.state) for one in accepted], [("x", True, "waiting"), ("x", False, "waiting"), ("fake-2", True, "waiting")])

        async def main():
            self.assertEqual(await AsyncFakeProducer().enqueue("a", id="x"), "x")
            self.assertTrue((await AsyncFakeHttp().enqueue("a", delay=5)).is_new)
            self.assertEqual(await AsyncFakeProducer().enqueue_many([Submission("a")]), ["fake-1"])

        asyncio.run(main())

    def test_handlers_use_it(self):
        fake = FakeProducer()
        worker = Worker()
        send = worker.job("mail.send", max_attempts=3)(lambda job: None)
        send.enqueue({"to": "ann"}, producer=fake)
        self.assertEqual(fake.assert_enqueued("mail.send")[0].fields, {"max_attempts": "3"})


class Running(unittest.TestCase):
    def test_an_attempt_shows_how_it_ended(self):
        ended = run(Job("mail.send", {"to": "ann"}), shop())
        self.assertEqual((ended.result, ended.error), ({"sent": "ann"}, None))
        self.assertEqual((ended.progress, ended.log), ([(100.0, "sent")], ["sent"]))
        for to, outcome, error in (("nobody", Fatal, "no such address"), ("busy", Retry, "ConnectionError: the relay is busy")):
            ended = run(Job("mail.send", {"to": to}), shop())
            self.assertIsInstance(ended.outcome, outcome)
            self.assertIn(error, ended.error)
            with self.assertRaisesRegex(AssertionError, "has no result"):
                ended.result
        with self.assertRaisesRegex(LookupError, "only for mail.send, note"):
            run(Job("mail"), shop())

    def test_it_has_middleware_rules_listeners_and_the_current_job(self):
        worker, seen = shop(), []

        @worker.middleware
        def divide(job, call_next):
            seen.append(streamfleet.current_job().id)
            return call_next(job) if job.payload else 1 / 0

        @worker.on("failed")
        def failed(job, outcome):
            seen.append(type(outcome.__cause__))

        self.assertIsInstance(run(Job("note", 0), worker).outcome, Fatal)
        self.assertEqual(run(Job("note", 7), worker).result, 7)
        self.assertEqual(seen, ["test", ZeroDivisionError, "test"])

    def test_a_result_that_cannot_be_sent_fails(self):
        worker = Worker()
        worker.job("a")(lambda job: {1, 2})
        self.assertIn("cannot be sent", run(Job("a"), worker).error)

    def test_jobs_run_with_what_follows_them(self):
        fake = FakeProducer(worker=shop())
        fake.enqueue("mail.send", {"to": "busy"}, max_attempts=3, on_success="note", then=[{"type": "order.pay", "payload": {"order": 7}}, {"type": "note"}])
        fake.enqueue("mail.send", {"to": "nobody"}, on_failure="note", delay=3600)
        ended = fake.run()
        self.assertEqual([type(one.outcome).__name__ for one in ended], ["Retry", "Retry", "Done", "Fatal", "Done", "Done", "Done", "Done"])
        self.assertEqual([one.job.attempt for one in ended[:4]], [1, 2, 3, 1])
        notes = [job.payload for job in fake.enqueued("note")]
        self.assertEqual([note["state"] for note in notes], ["done", "dead", "done"])
        self.assertEqual((notes[0]["result"], notes[1]["error"], notes[2]["result"]), ({"sent": "busy"}, "no such address", [7]))
        self.assertEqual(fake.run(), [])

    def test_a_batch_is_followed_when_all_its_members_have_succeeded(self):
        fake = FakeHttp(worker=shop())
        members = [Submission("mail.send", {"to": to}) for to in ("ann", "busy")]
        self.assertEqual(fake.batch("mails", members, Submission("note", "all sent")), ["mails.0", "mails.1"])
        fake.run()
        fake.assert_enqueued("note", times=0)
        fake = FakeHttp(worker=shop())
        fake.batch("mails", [Submission("mail.send", {"to": "ann"})] * 2, Submission("note", "all sent"))
        self.assertEqual(fake.run()[-1].result, "all sent")

    def test_states_and_results_are_those_of_the_last_attempt(self):
        fake = FakeProducer(worker=shop())
        ids = [fake.enqueue("mail.send", {"to": "ann"}), fake.enqueue("mail.send", {"to": "nobody"}), fake.enqueue("sell", 1), fake.enqueue("sell")]
        self.assertEqual(fake.status(ids[0]).state, "waiting")
        self.assertEqual(fake.wait(ids[0]).value(), {"sent": "ann"})
        self.assertEqual([fake.status(id).state for id in ids], ["done", "dead", "cancelled", "scheduled"])
        self.assertIsNone(fake.status("x"))
        with self.assertRaises(LookupError):
            fake.wait("x")

    def test_jobs_in_a_circle_end(self):
        fake = FakeProducer(worker=shop())
        fake.enqueue("note")
        fake._succeeded = lambda recorded, result: fake.enqueue("note")
        with self.assertRaisesRegex(AssertionError, "circle"):
            fake.run()

    def test_async_handlers_run_from_coroutines_and_from_elsewhere(self):
        worker, fake = Worker(), AsyncFakeProducer()
        fake.worker = worker

        @worker.job("page.fetch")
        async def fetch(job):
            await asyncio.sleep(0)
            if job.payload:
                await fake.enqueue("page.fetch", job.payload - 1)
            return job.payload

        @worker.job("plain")
        def plain(job):
            return "plain"

        @worker.middleware
        async def around(job, call_next):
            return [await call_next(job)]

        async def main():
            await fake.enqueue("page.fetch", 2)
            self.assertEqual([ended.result for ended in await fake.run()], [[2], [1], [0]])
            self.assertEqual((await arun(Job("plain"), worker)).result, ["plain"])
            self.assertEqual((await fake.wait("fake-1")).value(), [2])

        asyncio.run(main())
        self.assertEqual(run(Job("page.fetch", 0), worker).outcome.__class__, Done)


if __name__ == "__main__":
    unittest.main()
