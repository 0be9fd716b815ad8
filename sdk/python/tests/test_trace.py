"""The trace context: OpenTelemetry's if the program uses it, and otherwise that of the job that submits another."""

import asyncio
import unittest

from streamfleet import Job, Submission, Worker
from streamfleet._line import line_of
from streamfleet.testing import FakeProducer, arun, run

try:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
except ImportError:
    trace = None

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def fields(submission):
    return {name.decode(): value.decode() for name, value in submission.fields if name in (b"traceparent", b"h.tracestate")}


class WithoutOpenTelemetry(unittest.TestCase):
    def test_a_job_that_a_handler_submits_is_a_child_of_its_attempt(self):
        worker, fake = Worker(), FakeProducer()
        worker.job("a")(lambda job: fake.enqueue("b", traceparent=job.payload))
        run(Job("a", traceparent=PARENT, headers={"tracestate": "x=1"}), worker)
        run(Job("a"), worker)
        run(Job("a", PARENT.replace("b7", "c8"), traceparent=PARENT, headers={"tracestate": "x=1"}), worker)
        traces = [(job.fields.get("traceparent"), job.headers) for job in fake.jobs]
        self.assertEqual(traces, [(PARENT, {"tracestate": "x=1"}), (None, {}), (PARENT.replace("b7", "c8"), {})])

    def test_the_trace_goes_with_every_way_to_submit(self):
        submission = Submission("a", traceparent=PARENT, headers={"tracestate": "x=1"})
        self.assertIn(f'"traceparent":"{PARENT}"'.encode(), line_of(submission))
        self.assertEqual(fields(submission), {"traceparent": PARENT, "h.tracestate": "x=1"})


class States(unittest.TestCase):
    def test_a_tracestate_that_breaks_the_standard_is_left_out(self):
        members = ",".join(f"k{nth}=1" for nth in range(32))
        long = f"a={'x' * 250},b={'y' * 250},c="
        for good in ["a=1", "a=1 , ,b=2", members, long + "12"]:
            self.assertEqual(Job("a", headers={"tracestate": good}).tracestate, good)
        for bad in ["", ",", "a", "a=", "A=1", "a=1,a=2", "a=b=c", "a=ü", "a=1\r\nx: y", members + ",k=1", long + "123456789"]:
            job = Job("a", traceparent=PARENT, headers={"tracestate": bad})
            self.assertIsNone(job.tracestate, bad)
            worker, fake = Worker(), FakeProducer()
            worker.job("a")(lambda job: fake.enqueue("b"))
            run(job, worker)
            self.assertEqual(fake.jobs[0].headers, {})


@unittest.skipUnless(trace, "opentelemetry-sdk is not installed")
class WithOpenTelemetry(unittest.TestCase):
    def setUp(self):
        self.tracer = TracerProvider().get_tracer("test")

    def test_a_job_belongs_to_the_span_in_which_it_is_submitted(self):
        self.assertEqual(fields(Submission("a")), {})
        with self.tracer.start_as_current_span("request") as span:
            context = span.get_span_context()
            self.assertEqual(fields(Submission("a")), {"traceparent": f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"})

    def spans(self, ran):
        """The span that a handler makes, and the job that it submits."""
        worker, made, fake = Worker(), [], FakeProducer()

        def work():
            with self.tracer.start_as_current_span("work") as span:
                made.append(span)
                fake.enqueue("b")

        ran(worker, work)
        (span,), (job,) = made, fake.jobs
        self.assertEqual(trace.get_current_span().get_span_context().is_valid, False)
        return span, job

    def check(self, span, job):
        self.assertEqual(f"{span.parent.trace_id:032x}-{span.parent.span_id:016x}", PARENT[3:-3])
        self.assertEqual(span.parent.trace_state.to_header(), "x=1,y=2")
        self.assertEqual(job.headers, {"tracestate": "x=1,y=2"})
        self.assertEqual(job.fields["traceparent"][36:52], f"{span.get_span_context().span_id:016x}")

    def test_the_spans_of_a_handler_are_children_of_its_attempt(self):
        job = {"traceparent": PARENT, "headers": {"tracestate": "x=1,y=2"}}

        def in_turn(worker, work):
            worker.job("a")(lambda job: work())
            run(Job("a", **job), worker)

        async def aside(worker, work):
            @worker.job("a")
            async def handler(job):
                await asyncio.sleep(0)
                work()

            await arun(Job("a", **job), worker)

        self.check(*self.spans(in_turn))
        self.check(*self.spans(lambda worker, work: asyncio.run(aside(worker, work))))

    def test_a_trace_that_breaks_the_standard_is_no_parent(self):
        def ran(worker, work):
            worker.job("a")(lambda job: work())
            run(Job("a", traceparent="nonsense"), worker)

        span, _ = self.spans(ran)
        self.assertIsNone(span.parent)


if __name__ == "__main__":
    unittest.main()
