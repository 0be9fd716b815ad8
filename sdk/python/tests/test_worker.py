"""The pool protocol: what a program with handlers answers to a worker."""

import base64
import json
import os
import re
import signal
import sys
import tempfile
import textwrap
import time
import unittest

import streamfleet
from streamfleet import Drop, Fatal, Job, Retry, Snooze, Unknown
from tests.pool import Program

SYNC = """
    import json, os, signal, subprocess, sys, time
    from datetime import timedelta
    import streamfleet
    from streamfleet import Done, Drop, Fatal, Retry, Snooze, Unknown, job

    outcomes = {
        "done": lambda: Done({"n": 1}),
        "bytes": lambda: b"\\xff\\x00",
        "none": lambda: None,
        "list": lambda: [1, "ü"],
        "retry": lambda: Retry("later", delay=2.5),
        "plain retry": lambda: Retry("again"),
        "fatal": lambda: Fatal("never"),
        "unknown": lambda: Unknown("no answer"),
        "snooze": lambda: Snooze(timedelta(minutes=1), "closed"),
        "drop": lambda: Drop("sold out"),
        "odd drop": lambda: Drop(KeyError("sold out")),
        "nan": lambda: float("nan"),
        "set": lambda: {1, 2},
        "surrogate": lambda: "\\udc80",
        "large number": lambda: 2**64,
        "largest number": lambda: [2**64 - 1, -(2**63)],
        "huge": lambda: "x" * (17 * 1024 * 1024),
        "nested bytes": lambda: {"data": b"x"},
        "circle": lambda: circle(),
        "deep": lambda: json.loads("[" * 150 + "]" * 150),
        "brackets": lambda: [json.loads("[" * 110 + "]" * 110), "[{\\"" * 200],
    }

    def circle():
        circle = {}
        circle["self"] = circle
        return circle

    @job("size")
    def size(job):
        return "x" * job.payload

    @job("long")
    def long(job):
        if job.payload == "error":
            raise ValueError("\\0" * 100_000)
        if job.payload == "fatal":
            return Fatal("ü" * 100_000)
        if job.payload == "snooze":
            return Snooze(1, '"' * 100_000)
        job.log("\\0" * 100_000, n="x" * 100_000)
        job.progress(1, "\\0" * 100_000)

    @job("return")
    def return_(job):
        return outcomes[job.payload]()

    @job("raise")
    def raise_(job):
        raise outcomes[job.payload]()

    @job("echo")
    def echo(job):
        payload = job.payload
        if isinstance(payload, bytes):
            payload = {"bytes": list(payload)}
        return {"id": job.id, "type": job.type, "queue": job.queue, "attempt": job.attempt, "max": job.max_attempts,
                "headers": job.headers, "payload": payload, "encoding": job.encoding, "step": job.step,
                "results": {step: list(result) for step, result in job.results.items()},
                "created": job.created.isoformat(), "remaining": 0 < job.remaining <= 30}

    def deep(n):
        if n:
            return deep(n - 1)
        raise LookupError("no customer 7")

    @job("fail")
    def fail(job):
        deep(job.payload or 0)

    @job("odd.fail")
    def odd_fail(job):
        class Odd(Exception):
            def __str__(self):
                raise RuntimeError
        raise Odd

    @job("surrogate.fail")
    def surrogate_fail(job):
        raise ValueError("a \\udc80 b" + "x" * 10000)

    @job("exit")
    def exit(job):
        sys.exit(3)

    @job("noise")
    def noise(job):
        print("printed")
        print("flushed", flush=True)
        os.write(1, b"written\\n")
        sys.__stdout__.write("original\\n")
        sys.__stdout__.flush()
        subprocess.run(["sh", "-c", "echo from a program; cat"], check=True)
        return subprocess.run([sys.executable, "-c", "import os; print(os.environ.get('STREAMFLEET_POOL'))"],
                              check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    @job("progress")
    def progress(job):
        job.progress(42.5, "page 3 of 7")
        job.progress(message="half")
        job.progress(1000)
        job.log("hello", "warn", rows=3, odd={1, 2} and object)
        try:
            job.progress(float("nan"))
        except ValueError as error:
            return str(error)

    @job("sleep")
    def sleep(job):
        try:
            job.progress(0)
            time.sleep(60)
        except Exception:
            return "hidden"
        finally:
            job.progress(99, "cleaned up")

    @job("ask")
    def ask(job):
        job.progress(0)
        while not job.cancelled:
            time.sleep(0.01)
        return job.cancelled

    @job("finish")
    def finish(job):
        job.progress(0)
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            time.sleep(0.01)
        return "finished"

    @job("talkative.fork")
    def talkative_fork(job):
        if os.fork() == 0:
            job.log("from the child")
            assert job.cancelled is None
            os._exit(0)
        os.wait()
        return job.cancelled

    @job("fork")
    def fork(job):
        if os.fork() == 0:
            sys.exit(0)
        os.wait()
        return "parent"
"""


def _is_unreadable(line):
    """Old versions of Python read numbers of any length."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return True
    return False


class Sync(unittest.TestCase):
    def program(self, tail="streamfleet.run()", head="", env=None):
        program = Program(textwrap.dedent(head) + textwrap.dedent(SYNC) + "\n" + textwrap.dedent(tail), env=env)
        self.addCleanup(program.__exit__)
        return program

    def started(self, **options):
        program = self.program(**options)
        program.hello()
        return program

    def test_ready_names_types_and_protocol(self):
        ready = self.program().hello(inflight=8)
        self.assertEqual((ready["protocol"], ready["inflight"]), (1, 1))
        self.assertEqual(ready["sdk"], "streamfleet-python " + streamfleet.__version__)
        self.assertIn("odd.fail", ready["types"])

    def test_another_protocol_is_refused_with_both_versions(self):
        program = self.program()
        program.send({"type": "hello", "protocol": 2, "inflight": 1})
        lines, code = program.end()
        self.assertEqual([line["type"] for line in lines], ["ready"])
        self.assertEqual(code, 1)
        self.assertIn("the worker speaks protocol 2, this program 1", program.errors())

    def test_outcomes_are_the_same_returned_and_raised(self):
        program = self.started()
        expected = {
            "done": {"outcome": "done", "result": {"n": 1}},
            "retry": {"outcome": "retry", "error": "later", "delay_ms": 2500},
            "plain retry": {"outcome": "retry", "error": "again"},
            "fatal": {"outcome": "fatal", "error": "never"},
            "unknown": {"outcome": "retry", "unknown": True, "error": "no answer"},
            "snooze": {"outcome": "snooze", "delay_ms": 60000, "reason": "closed"},
            "drop": {"outcome": "drop", "reason": "sold out"},
        }
        for way in ("return", "raise"):
            for name, fields in expected.items():
                with self.subTest(way=way, name=name):
                    ref = program.job(way, name)
                    self.assertEqual(program.result(), {"type": "result", "ref": ref, **fields})

    def test_results_are_json_or_bytes_or_absent(self):
        program = self.started()
        self.assertEqual(program.ask("return", "list")["result"], [1, "ü"])
        answer = program.ask("return", "bytes")
        self.assertNotIn("result", answer)
        self.assertEqual(base64.b64decode(answer["result_base64"]), b"\xff\x00")
        self.assertNotIn("result", program.ask("return", "none"))
        self.assertEqual(program.ask("return", "largest number")["result"], [2**64 - 1, -(2**63)])

    def test_a_result_that_cannot_be_sent_fails_its_job_and_the_program_lives(self):
        program = self.started()
        for name, why in {
            "nan": "JSON",
            "set": "set",
            "nested bytes": "bytes",
            "surrogate": "surrogate",
            "large number": "64 bits",
            "circle": "ircular",
            "deep": "more than 120 levels",
            "huge": "the pool's max_line is 16777216",
        }.items():
            with self.subTest(name):
                answer = program.ask("return", name)
                self.assertEqual(answer["outcome"], "fatal")
                self.assertIn("the handler's result cannot be sent: ", answer["error"])
                self.assertIn(why, answer["error"])
        self.assertEqual(program.ask("return", "brackets")["outcome"], "done")

    def test_no_line_is_longer_than_the_worker_accepts(self):
        program = self.program()
        program.hello(max_line=1024)
        self.assertEqual(program.ask("size", 900)["outcome"], "done")
        self.assertIn("the pool's max_line is 1024", program.ask("size", 1024)["error"])
        for what, outcome in {"error": "retry", "fatal": "fatal", "snooze": "snooze", "logs": "done"}.items():
            with self.subTest(what):
                program.job("long", what)
                line = None
                while line is None or line["type"] != "result":
                    line = program.read()
                    text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
                    self.assertLessEqual(len(text.encode()), 1024)
                self.assertEqual(line["outcome"], outcome)

    def test_jobs_ahead_begin_in_order_and_the_last_one_leaves_the_others(self):
        program = self.program(tail="streamfleet.run(max_jobs=3)")
        self.assertEqual(program.hello(ahead=8)["ahead"], 8)
        refs = program.jobs(5, "return", "list")
        lines, code = program.end()
        self.assertEqual([line.get("ref") for line in lines], [*refs[:3], None])
        self.assertEqual((lines[-1], code), ({"type": "bye"}, 0))

    def test_a_job_that_is_cancelled_before_it_begins_does_not_begin(self):
        program = self.program()
        program.hello(ahead=8)
        first = program.job("finish")
        self.assertEqual(program.read()["type"], "progress")
        unwanted, after = program.job("return", "list"), program.job("return", "done")
        program.send({"type": "cancel", "ref": unwanted, "reason": "cancelled"})
        answers = {answer["ref"]: answer for answer in (program.result() for _ in range(3))}
        self.assertEqual(answers[first]["result"], "finished")
        self.assertEqual((answers[unwanted]["outcome"], answers[unwanted]["delay_ms"]), ("snooze", 1000))
        self.assertEqual(answers[after]["result"], {"n": 1})

    def test_a_job_is_decoded_when_it_begins(self):
        program = self.program()
        program.hello(ahead=8)
        first = program.job("finish")
        self.assertEqual(program.read()["type"], "progress")
        line = b'{"type":"job","ref":"x","id":"a","job_type":"return","payload":%s}' % (b"[" * 200_000 + b"]" * 200_000)
        self.assertTrue(_is_unreadable(line))
        program.process.stdin.write(line + b"\n")
        program.process.stdin.flush()
        self.assertEqual(program.result(first)["result"], "finished")
        self.assertEqual(program.result("x")["outcome"], "fatal")

    def test_a_job_has_what_the_worker_said(self):
        program = self.started()
        results = {"scan": {"encoding": "base64", "data": "/wA="}, "list": [1], "odd": {"encoding": "base64", "data": "x"}}
        answer = program.ask("echo", {"n": 2**63}, attempt=2, headers={"tenant": "9"}, step="charge", results=results)["result"]
        self.assertEqual(
            answer,
            {
                "id": "job-1",
                "type": "echo",
                "queue": "default",
                "attempt": 2,
                "max": 5,
                "headers": {"tenant": "9"},
                "payload": {"n": 2**63},
                "encoding": "json",
                "step": "charge",
                "results": {"scan": [255, 0], "list": [1], "odd": ["encoding", "data"]},
                "created": "2023-11-14T22:13:20+00:00",
                "remaining": True,
            },
        )

    def test_a_payload_in_base64_is_bytes(self):
        answer = self.started().ask("echo", payload_base64=base64.b64encode(b"\xff\x00").decode(), encoding="raw")
        self.assertEqual(answer["result"]["payload"], {"bytes": [255, 0]})

    def test_an_exception_is_a_retry_with_the_end_of_its_traceback(self):
        error = self.started().ask("fail", 2)["error"]
        self.assertTrue(error.startswith("LookupError: no customer 7\n"), error)
        self.assertIn("in deep", error)
        self.assertNotIn("_worker.py", error)

    def test_an_exception_of_the_package_has_the_line_of_the_handler(self):
        tail = """
        @job("misuse")
        def misuse(job):
            job.log("x", level="warning")
        streamfleet.run()
        """
        error = self.started(tail=tail).ask("misuse")["error"]
        self.assertTrue(error.startswith("ValueError: level must be"), error)
        self.assertIn(", in misuse\n", error + "\n")

    def test_an_exception_has_those_that_led_to_it(self):
        tail = """
        @job("chain")
        def chain(job):
            try:
                try:
                    deep(0)
                except LookupError as error:
                    raise RuntimeError("could not load") from error
            except RuntimeError:
                if job.payload == "none":
                    raise ValueError("bad") from None
                raise ValueError("bad" * job.payload)
        streamfleet.run()
        """
        program = self.started(tail=tail)
        lines = program.ask("chain", 1)["error"].split("\n")
        heads = [line for line in lines if not line.startswith(" ")]
        self.assertEqual(heads, ["ValueError: bad", "while handling RuntimeError: could not load", "caused by LookupError: no customer 7"])
        self.assertIn(", in deep", lines[lines.index(heads[-1]) + 1])
        self.assertNotIn("RuntimeError", program.ask("chain", "none")["error"])
        long = program.ask("chain", 10_000)["error"]
        self.assertLessEqual(len(long.encode()), 4096)
        self.assertIn("caused by LookupError", long)

    def test_an_error_is_cut_at_4096_bytes(self):
        program = self.started()
        for name, payload in (("fail", 500), ("surrogate.fail", None)):
            with self.subTest(name):
                answer = program.ask(name, payload)
                self.assertEqual(answer["outcome"], "retry")
                self.assertLessEqual(len(answer["error"].encode()), 4096)

    def test_odd_endings_of_a_handler_are_failures(self):
        program = self.started()
        self.assertIn("Odd", program.ask("odd.fail")["error"])
        self.assertTrue(program.ask("exit")["error"].startswith("the handler called sys.exit(3)"))
        self.assertEqual(program.ask("fail", 5000)["error"].split(":")[0], "RecursionError")
        self.assertEqual(program.ask("return", "list")["outcome"], "done")

    def test_an_unknown_type_is_a_retry(self):
        answer = self.started().ask("nobody")
        self.assertEqual(answer["outcome"], "retry")
        self.assertIn("no handler for nobody", answer["error"])

    def test_prints_and_programs_do_not_break_the_protocol(self):
        # Printed before run() and not flushed, it must not appear later either. Without a buffer it would be in the
        # way of the handshake: python -m streamfleet exists for that.
        program = self.started(head="print('while importing')\n", env={"PYTHONUNBUFFERED": ""})
        answer = program.ask("noise")
        self.assertEqual(answer.get("result"), "None", answer)
        program.close()
        lines, code = program.end()
        self.assertEqual((lines, code), ([{"type": "bye"}], 0))
        errors = program.errors()
        for text in ("printed", "flushed", "written", "original", "from a program", "while importing"):
            self.assertIn(text, errors)

    def test_a_child_can_be_terminated_and_its_parent_goes_on(self):
        code = """
            import multiprocessing, time, streamfleet
            @streamfleet.job("child")
            def child(job):
                process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
                process.start()
                process.terminate()
                process.join(10)
                return process.exitcode
            DEFINE other(job):
                return 1
            streamfleet.job("other")(other)
            streamfleet.run()
        """
        for define in ("def", "async def"):
            with self.subTest(define), Program(code.replace("DEFINE", define)) as program:
                program.hello(5)
                self.assertEqual(program.ask("child").get("result"), -15)
                self.assertEqual(program.ask("other")["outcome"], "done")

    def test_a_child_that_comes_back_answers_nothing(self):
        program = self.started()
        self.assertEqual(program.ask("fork")["result"], "parent")
        self.assertEqual(program.ask("return", "list")["result"], [1, "ü"])

    def test_a_child_of_a_handler_neither_writes_nor_reads_lines(self):
        program = self.started()
        ref = program.job("talkative.fork")
        program.send({"type": "cancel", "ref": ref, "reason": "timeout"})
        answer = program.read()
        self.assertEqual((answer["type"], answer["ref"]), ("result", ref))
        self.assertIn(answer.get("result"), ("timeout", None))
        self.assertEqual(program.ask("return", "list")["result"], [1, "ü"])

    def test_a_payload_that_python_cannot_read_fails_alone(self):
        for payload in (b"1" * 5000, b"[" * 200_000 + b"]" * 200_000):
            program = self.started()
            line = b'{"type":"job","ref":"x","id":"a","job_type":"return","payload":%s}' % payload
            if not _is_unreadable(line):
                continue
            program.process.stdin.write(line + b"\n")
            program.process.stdin.flush()
            answer = program.result("x")
            self.assertEqual(answer["outcome"], "fatal")
            self.assertIn("cannot read the payload", answer["error"])
            self.assertEqual(program.ask("return", "list")["result"], [1, "ü"])

    def test_a_reason_may_be_any_object(self):
        answer = self.started().ask("return", "odd drop")
        self.assertEqual((answer["outcome"], answer["reason"]), ("drop", "'sold out'"))

    def test_progress_and_logs_are_sent(self):
        program = self.started()
        ref = program.job("progress")
        self.assertEqual(
            program.read(), {"type": "progress", "ref": ref, "percent": 42.5, "message": "page 3 of 7"}
        )
        self.assertEqual(program.read(), {"type": "progress", "ref": ref, "message": "half"})
        self.assertEqual(program.read()["percent"], 100)
        log = program.read()
        self.assertEqual((log["level"], log["message"], log["ref"], log["fields"]["rows"]), ("warn", "hello", ref, 3))
        self.assertEqual(program.result(ref)["result"], "the progress must be finite, not nan")

    def test_end_of_input_ends_with_bye(self):
        program = self.started()
        program.close()
        self.assertEqual(program.end(), ([{"type": "bye"}], 0))

    def test_sigterm_while_idle_ends_with_bye(self):
        program = self.started()
        program.ask("return", "list")
        program.terminate()
        self.assertEqual(program.end(), ([{"type": "bye"}], 0))

    def test_sigterm_finishes_the_job_and_snoozes_what_comes_after(self):
        program = self.started()
        first = program.job("finish")
        self.assertEqual(program.read()["type"], "progress")
        program.terminate()
        second = program.job("return", "list")
        lines, code = program.end()
        self.assertEqual(lines[0], {"type": "result", "ref": first, "outcome": "done", "result": "finished"})
        self.assertEqual((lines[1]["ref"], lines[1]["outcome"], lines[1]["delay_ms"]), (second, "snooze", 1000))
        self.assertEqual((lines[2:], code), ([{"type": "bye"}], 0))

    def test_cancel_and_sigterm_interrupt_a_handler_which_cleans_up(self):
        program = self.started()
        ref = program.job("sleep")
        program.read()
        program.send({"type": "cancel", "ref": ref, "reason": "timeout"})
        program.terminate()
        lines, code = program.end()
        self.assertEqual(lines[0].get("message"), "cleaned up")
        self.assertEqual(lines[1]["outcome"], "retry")
        self.assertEqual(lines[1]["error"], "the attempt was interrupted: timeout")
        self.assertEqual(code, 0)

    def test_a_handler_can_ask_whether_it_is_cancelled(self):
        program = self.started()
        ref = program.job("ask")
        program.read()
        program.send({"type": "cancel", "ref": "77", "reason": "lost"})
        program.send({"type": "unheard of"})
        program.send({"type": "cancel", "ref": ref, "reason": "cancelled"})
        self.assertEqual(program.result(ref)["result"], "cancelled")
        self.assertEqual(program.ask("return", "list")["outcome"], "done")

    def test_max_jobs_ends_the_program_with_bye(self):
        program = self.started(tail="streamfleet.run(max_jobs=2)")
        program.ask("return", "list")
        program.ask("return", "list")
        self.assertEqual(program.end(), ([{"type": "bye"}], 0))

    def test_a_line_that_was_cut_off_is_dropped(self):
        program = self.started()
        program.process.stdin.write(b'{"type":"job","ref":"9","job_ty')
        program.process.stdin.flush()
        program.close()
        self.assertEqual(program.end(), ([{"type": "bye"}], 0))

    def test_large_payloads_and_bursts_arrive_whole(self):
        program = self.started()
        text = "ü" * (3 * 1024 * 1024)
        self.assertEqual(program.ask("echo", text)["result"]["payload"], text)

    def test_log_records_become_log_messages(self):
        program = Program(
            """
            import logging, streamfleet
            @streamfleet.job("log")
            def handler(job):
                logging.getLogger("app").warning("odd %s", "row", extra={"rows": 3, "when": object})
                logging.debug("too small")
                assert streamfleet.current_job() is job
                try:
                    1 / 0
                except ZeroDivisionError:
                    logging.exception("failed")
            streamfleet.run()
            """
        )
        self.addCleanup(program.__exit__)
        program.hello()
        ref = program.job("log")
        first, second = program.read(), program.read()
        self.assertEqual((first["level"], first["message"], first["ref"]), ("warn", "odd row", ref))
        self.assertEqual((first["fields"]["logger"], first["fields"]["rows"]), ("app", 3))
        self.assertEqual(second["level"], "error")
        self.assertIn("ZeroDivisionError", second["message"])
        self.assertEqual(program.result(ref)["outcome"], "done")

    def test_middleware_surrounds_handlers_in_order(self):
        program = Program(
            """
            import streamfleet
            from streamfleet import Drop
            @streamfleet.middleware
            def outer(job, call_next):
                if job.headers.get("tenant") == "gone":
                    return Drop("no tenant")
                return ["outer", call_next(job)]
            @streamfleet.middleware
            def inner(job, call_next):
                try:
                    return ["inner", call_next(job)]
                except KeyError:
                    raise streamfleet.Fatal("a key is missing") from None
            @streamfleet.job("x")
            def handler(job):
                return job.payload["name"]
            streamfleet.run()
            """
        )
        self.addCleanup(program.__exit__)
        program.hello()
        self.assertEqual(program.ask("x", {"name": "a"})["result"], ["outer", ["inner", "a"]])
        self.assertEqual(program.ask("x", {})["outcome"], "fatal")
        self.assertEqual(program.ask("x", {}, headers={"tenant": "gone"})["reason"], "no tenant")

    def test_m_streamfleet_takes_the_output_before_it_imports(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "my_jobs.py"), "w") as file:
                file.write(
                    "import os\nfrom streamfleet import job\nos.write(1, b'noise')\nprint('noise', flush=True)\n"
                    "@job('x', max_attempts=4)\ndef x(job):\n    return 1\n"
                )
            # A program may be called as its module is.
            open(os.path.join(folder, "my_jobs"), "w").close()
            program = Program(args=["-m", "streamfleet", "my_jobs", "--max-jobs", "1"], cwd=folder)
            self.addCleanup(program.__exit__)
            self.assertEqual(program.hello()["types"], ["x"])
            self.assertEqual(program.ask("x")["result"], 1)
            self.assertEqual(program.end(), ([{"type": "bye"}], 0))
            for path in ("./my_jobs.py", os.path.join(os.path.realpath(folder), "my_jobs.py")):
                program = Program(args=["-m", "streamfleet", path], cwd=folder)
                self.addCleanup(program.__exit__)
                self.assertEqual(program.end(), ([], 2))
                self.assertIn(f"{path} is a file: name the module, such as my_jobs\n", program.errors())


RULES = """
    import asyncio, sys, time
    import streamfleet
    from streamfleet import Drop, Fatal, Retry, Snooze, job

    class Busy(ConnectionError):
        pass

    class Declined(ValueError):
        pass

    class Hidden(Exception):
        __module__ = "app"

    Long = type("L" * 300, (Hidden,), {})

    streamfleet.errors({ValueError: "fatal", Declined: "drop", OSError: "retry", Busy: 2.5})
    raised = {
        "fatal": lambda: UnicodeError("no text"),
        "drop": lambda: Declined("gone"),
        "retry": lambda: FileNotFoundError("later"),
        "busy": lambda: Busy("soon"),
        "open": lambda: LookupError("who knows"),
        "own": lambda: Hidden("x"),
        "long": lambda: Long("\\0" * 3000),
        "exit": lambda: SystemExit(3),
        "outcome": lambda: Retry("own words"),
    }

    @job("raise")
    DEFINE raise_(job):
        raise raised[job.payload]()

    @job("wait")
    DEFINE wait(job):
        job.progress(1)
        if ASYNC:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                raise ValueError("because of that") from None
        while not job.cancelled:
            time.sleep(0.01)
        raise ValueError("because of that")
"""


def _of_kind(code, kind):
    """The code with handlers and listeners that are functions, or coroutines."""
    is_async = kind == "async def"
    code = textwrap.dedent(code).replace("DEFINE", kind).replace("ASYNC", str(is_async))
    return code if is_async else re.sub(r"await asyncio\.sleep\(.*?\)", "pass", code)


KINDS = ("def", "async def")


class Errors(unittest.TestCase):
    def program(self, code, kind, **hello):
        program = Program(_of_kind(code, kind) + "\nstreamfleet.run()")
        self.addCleanup(program.__exit__)
        program.hello(**hello)
        return program

    def test_the_nearest_class_of_an_exception_decides_what_follows(self):
        for kind in KINDS:
            program = self.program(RULES, kind)
            for name, outcome, text in (
                ("fatal", "fatal", "UnicodeError: no text"),
                ("retry", "retry", "FileNotFoundError: later"),
                ("busy", "retry", "Busy: soon"),
            ):
                with self.subTest(kind=kind, name=name):
                    answer = program.ask("raise", name)
                    self.assertEqual(answer["outcome"], outcome)
                    self.assertTrue(answer["error"].startswith(text), answer)
                    self.assertEqual(answer.get("delay_ms"), 2500 if name == "busy" else None)
                    self.assertNotIn("classes", answer)
            answer = program.ask("raise", "drop")
            self.assertEqual((answer["outcome"], answer["reason"]), ("drop", "Declined: gone"))
            # The class does not say how far the handler came.
            answer = program.result(program.job("raise", "drop", step="charge", step_kind="once"))
            self.assertEqual((answer["outcome"], answer.get("classes")), ("retry", None))
            self.assertTrue(answer["error"].startswith("Declined: gone"), answer)

    def test_an_exception_without_a_rule_has_its_classes_for_the_configuration(self):
        for kind in KINDS:
            program = self.program(RULES, kind)
            for name, classes in (
                ("open", ["LookupError", "Exception", "BaseException"]),
                ("own", ["app.Hidden", "Exception", "BaseException"]),
                ("long", ["app.Hidden", "Exception", "BaseException"]),
                ("exit", ["SystemExit", "BaseException"]),
                ("outcome", None),
            ):
                with self.subTest(kind=kind, name=name):
                    answer = program.ask("raise", name)
                    self.assertEqual((answer["outcome"], answer.get("classes")), ("retry", classes))

    def test_a_class_of_the_program_itself_has_no_module(self):
        code = """
            import streamfleet
            from streamfleet import job

            class Declined(Exception):
                pass

            @job("raise")
            DEFINE raise_(job):
                raise Declined("no money")
        """
        answer = self.program(code, "def").ask("raise")
        self.assertEqual((answer["error"].split("\n")[0], answer["classes"][0]), ("Declined: no money", "Declined"))

    def test_the_names_of_classes_fit_into_a_short_line(self):
        program = self.program(RULES, "def", max_line=1024)
        answer = program.ask("raise", "long")
        self.assertLessEqual(len(json.dumps(answer, separators=(",", ":"))), 1024)
        self.assertEqual(program.ask("raise", "open")["classes"][0], "LookupError")

    def test_an_exception_because_of_an_interruption_is_a_retry(self):
        for kind in KINDS:
            program = self.program(RULES, kind)
            ref = program.job("wait")
            program.read()
            program.send({"type": "cancel", "ref": ref, "reason": "timeout"})
            answer = program.result(ref)
            self.assertEqual((answer["outcome"], answer.get("classes")), ("retry", None), answer)
            self.assertTrue(answer["error"].startswith("ValueError: because of that"), answer)

    def test_a_job_that_has_begun_when_it_is_taken_back_ends_as_any_other(self):
        code = """
            import asyncio, os, time
            import streamfleet
            from streamfleet import job

            streamfleet.errors({LookupError: "fatal"})

            @job("begun")
            DEFINE begun(job):
                job.progress(1)
                while job.cancelled is None and not os.path.exists(job.payload):
                    await asyncio.sleep(0.001)
                    time.sleep(0.001)
                raise LookupError(f"cancelled: {job.cancelled}")
        """
        for kind in KINDS:
            with self.subTest(kind=kind), tempfile.TemporaryDirectory() as folder:
                gate = os.path.join(folder, "gate")
                program = self.program(code, kind, ahead=8)
                begun = program.job("begun", gate)
                self.assertEqual(program.read()["type"], "progress")
                ahead = program.job("begun", gate)
                for ref in (begun, ahead):
                    program.send({"type": "cancel", "ref": ref, "reason": "withdrawn"})
                given_back = program.result(ahead)
                self.assertEqual((given_back["outcome"], given_back["begun"]), ("snooze", False))
                open(gate, "w").close()
                answer = program.result(begun)
                self.assertEqual((answer["outcome"], answer["error"].split("\n")[0]), ("fatal", "LookupError: cancelled: None"))

    @unittest.skipIf(sys.version_info < (3, 11), "there are no groups of exceptions")
    def test_exceptions_of_a_task_group_count_as_if_the_handler_had_raised_them(self):
        code = """
            import asyncio
            import streamfleet
            from streamfleet import Drop, Fatal, Unknown, job

            streamfleet.errors({ValueError: "fatal"})
            raised = {"unknown": Unknown("no answer"), "fatal": Fatal("never"), "drop": Drop("gone"),
                      "rule": ValueError("bad"), "os": OSError("down"), "key": KeyError("x")}

            async def child(name):
                raise raised[name]

            @job("group")
            async def group(job):
                async with asyncio.TaskGroup() as outer:
                    for name in job.payload:
                        outer.create_task(child(name))

            @job("nested")
            async def nested(job):
                async with asyncio.TaskGroup() as outer:
                    outer.create_task(group.function(job))

            streamfleet.run()
        """
        program = Program(code)
        self.addCleanup(program.__exit__)
        program.hello()
        for names, outcome, said in (
            (["unknown"], "retry", "no answer"),
            (["fatal"], "fatal", "never"),
            (["drop"], "drop", "gone"),
            (["rule"], "fatal", "ValueError: bad"),
            (["os"], "retry", "OSError: down"),
            (["os", "rule"], "fatal", "ValueError: bad\nand OSError: down"),
            (["key", "fatal", "unknown"], "retry", "no answer"),
            (["os", "key"], "retry", "OSError: down\nand KeyError: 'x'"),
        ):
            for job_type in ("group", "nested"):
                with self.subTest(job_type, names=names):
                    answer = program.ask(job_type, names)
                    text = answer.get("error") or answer["reason"]
                    self.assertEqual((answer["outcome"], text[: len(said)]), (outcome, said), answer)
                    self.assertEqual(answer.get("unknown", False), "unknown" in names)
                    self.assertEqual(answer.get("classes", [None])[0], "OSError" if names == ["os"] else None)
                    if "no answer" not in said and said not in ("never", "gone"):
                        self.assertIn("in child", text)

    def test_a_progress_that_is_no_number_is_refused_by_its_name(self):
        for percent in ("50%", b"5", [50], object()):
            with self.subTest(percent=percent), self.assertRaisesRegex(TypeError, "the progress must be a number from 0 to 100"):
                streamfleet.Job("a").progress(percent)
        streamfleet.Job("a").progress(message="half")

    def test_rules_that_cannot_be_meant_are_refused_with_their_class(self):
        worker = streamfleet.Worker()
        for rules, error, text in (
            ({ValueError: "fatale"}, ValueError, "ValueError must be 'fatal', 'retry', 'unknown', 'drop'"),
            ({KeyError: -1}, ValueError, "KeyError: a delay must be finite"),
            ({KeyError: float("inf")}, ValueError, "KeyError: a delay must be finite"),
            ({KeyError: None}, TypeError, "KeyError: a delay must be a number"),
            ({int: "fatal"}, TypeError, "int'> is not a class of exceptions"),
            ({"ValueError": "fatal"}, TypeError, "'ValueError' is not a class of exceptions"),
            ({Fatal: "retry"}, TypeError, "Fatal is an outcome"),
        ):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                worker.errors(rules)
        self.assertEqual(worker.rules._rules, {})


EVENTS = """
    import asyncio, sys, time
    import streamfleet
    from streamfleet import Drop, Fatal, Retry, Snooze, job

    told = []

    def listen(event):
        @streamfleet.on(event)
        DEFINE listener(job, outcome=None):
            assert streamfleet.current_job() is job
            told.append([event, job.payload, type(outcome).__name__, repr(outcome and outcome.__cause__)])

    for event in ("before", "after", "retry", "failed"):
        listen(event)

    @streamfleet.on("before")
    def broken(job):
        raise RuntimeError("not before")

    @streamfleet.on("retry")
    DEFINE also_broken(job, outcome):
        sys.exit("not after")

    outcomes = {
        "done": lambda: 1,
        "snooze": lambda: Snooze(1),
        "drop": lambda: Drop("gone"),
        "retry": lambda: Retry("later"),
        "fatal": lambda: Fatal("never"),
        "unsendable": lambda: object(),
    }

    @job("return")
    DEFINE return_(job):
        if job.payload == "raise":
            raise LookupError("no")
        return outcomes[job.payload]()

    @job("told")
    DEFINE told_(job):
        return told[:-1]
"""


class Events(unittest.TestCase):
    def program(self, kind):
        program = Program(_of_kind(EVENTS, kind) + "\nstreamfleet.run()")
        self.addCleanup(program.__exit__)
        program.hello()
        return program

    def test_each_attempt_has_one_event_before_and_one_after(self):
        for kind in KINDS:
            program = self.program(kind)
            for payload, attempt, event, outcome in (
                ("done", 1, "after", "Done"),
                ("snooze", 1, "after", "Snooze"),
                ("drop", 5, "after", "Drop"),
                ("retry", 4, "retry", "Retry"),
                ("retry", 5, "failed", "Retry"),
                ("raise", 1, "retry", "Retry"),
                ("fatal", 1, "failed", "Fatal"),
                ("unsendable", 1, "failed", "Fatal"),
            ):
                with self.subTest(kind=kind, payload=payload):
                    program.ask("return", payload, attempt=attempt)
                    before, after = program.ask("told")["result"][-2:]
                    self.assertEqual(before, ["before", payload, "NoneType", "None"])
                    cause = "LookupError('no')" if payload == "raise" else "None"
                    self.assertEqual(after, [event, payload, outcome, cause])

    def test_a_once_step_that_failed_is_not_retried(self):
        for step_kind, event in (("once", "failed"), ("auto", "retry")):
            job = Job("x", attempt=1, max_attempts=5, message={"step": "charge", "step_kind": step_kind})
            for outcome in (Retry("no"), Unknown("perhaps")):
                self.assertEqual(streamfleet._worker._Loop.end_of(job, outcome), event)

    def test_an_exception_may_mean_that_nobody_knows(self):
        worker = streamfleet.Worker()
        worker.errors({TimeoutError: "unknown"})
        outcome = worker.rules.outcome(TimeoutError("no answer"), "text")
        self.assertEqual(outcome._fields(), {"outcome": "retry", "unknown": True, "error": "text"})

    def test_a_listener_that_raises_is_reported_and_changes_nothing(self):
        for kind in KINDS:
            program = self.program(kind)
            self.assertEqual(program.ask("return", "done")["result"], 1)
            self.assertEqual(program.ask("return", "retry")["error"], "later")
            self.assertEqual(program.ask("return", "done")["outcome"], "done")
            program.close()
            self.assertEqual(program.end(), ([{"type": "bye"}], 0))
            errors = program.errors()
            self.assertIn("a listener of 'before' failed for the job job-1: RuntimeError: not before\n", errors)
            self.assertIn("a listener of 'retry' failed for the job job-2: SystemExit: not after\n", errors)

    def test_what_a_job_and_its_listeners_print_and_log_comes_before_its_answer(self):
        code = """
            import streamfleet
            from streamfleet import Fatal, job

            @streamfleet.on("failed")
            DEFINE tell(job, outcome):
                print(f"{job.id} is dead", end="; ")
                job.log("told")

            @job("print")
            DEFINE print_(job):
                print("card 4242", end="; ")
                return Fatal("declined")
        """
        for kind in KINDS:
            program = Program(_of_kind(code, kind) + "\nstreamfleet.run()", env={"PYTHONUNBUFFERED": ""})
            self.addCleanup(program.__exit__)
            program.hello()
            ref = program.job("print")
            log = program.read()
            self.assertEqual((log["type"], log["ref"], log["message"]), ("log", ref, "told"))
            self.assertEqual(program.result(ref)["outcome"], "fatal")
            self.assertEqual(program.printed(), "card 4242; job-1 is dead; ")

    def test_an_interrupted_attempt_is_no_failure_unless_it_timed_out(self):
        job = Job("x", attempt=5, max_attempts=5)
        for reason, event in (("shutdown", "after"), ("cancelled", "after"), ("lost", "after"), ("timeout", "failed")):
            job._reason = reason
            self.assertEqual(streamfleet._worker._Loop.end_of(job, Retry("interrupted")), event)

    def test_wrong_listeners_are_refused(self):
        with self.assertRaisesRegex(ValueError, "there is no event 'done': use before, after, retry or failed"):
            streamfleet.Worker().on("done")
        program = Program(
            """
            import streamfleet
            streamfleet.job("x")(lambda job: 1)
            @streamfleet.on("failed")
            async def page(job, outcome):
                pass
            streamfleet.run()
            """
        )
        self.addCleanup(program.__exit__)
        self.assertEqual(program.end(), ([], 1))
        self.assertIn("the listener page must be no async def", program.errors())


ASYNC = """
    import asyncio, time
    import streamfleet
    from streamfleet import job

    @job("sleep")
    async def sleep(job):
        await asyncio.sleep(job.payload)
        return streamfleet.current_job().id

    @job("hang")
    async def hang(job):
        try:
            await asyncio.sleep(60)
        finally:
            job.progress(99)

    @job("stubborn")
    async def stubborn(job):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return job.cancelled

    @job("raise")
    async def raise_(job):
        raise LookupError("no")

    @job("cancels.itself")
    async def cancels_itself(job):
        raise asyncio.CancelledError

    running = 0

    @job("sync")
    def sync(job):
        global running
        running += 1
        most = running
        time.sleep(0.05)
        running -= 1
        assert streamfleet.current_job() is job
        return most
"""


class Async(unittest.TestCase):
    def started(self, tail="streamfleet.run()", inflight=50):
        program = Program(textwrap.dedent(ASYNC) + "\n" + textwrap.dedent(tail))
        self.addCleanup(program.__exit__)
        self.ready = program.hello(inflight)
        return program

    def test_jobs_run_at_once_up_to_the_lower_count(self):
        program = self.started()
        self.assertEqual(self.ready["inflight"], 50)
        begun = time.monotonic()
        refs = [program.job("sleep", 0.5) for _ in range(50)]
        results = [program.result() for _ in refs]
        self.assertLess(time.monotonic() - begun, 10)
        self.assertEqual({result["ref"]: result["result"] for result in results}, {r: f"job-{r}" for r in refs})
        self.started(tail="streamfleet.run(inflight=7)")
        self.assertEqual(self.ready["inflight"], 7)

    def test_cancel_ends_one_job_and_leaves_the_others(self):
        program = self.started()
        first, second, third = program.job("hang"), program.job("stubborn"), program.job("sleep", 0.5)
        program.send({"type": "cancel", "ref": first, "reason": "timeout"})
        program.send({"type": "cancel", "ref": second, "reason": "cancelled"})
        answers = {answer["ref"]: answer for answer in (program.result() for _ in range(3))}
        # The first may have been cancelled before it began.
        self.assertEqual(answers[first]["error"], "the attempt was interrupted: timeout")
        self.assertEqual(answers[third]["result"], f"job-{third}")
        self.assertIn(answers[second]["outcome"], ("done", "retry"))

    def test_a_payload_that_python_cannot_read_leaves_the_others(self):
        program = self.started()
        first = program.job("sleep", 0.5)
        line = b'{"type":"job","ref":"x","id":"a","job_type":"sleep","payload":%s}' % (b"[" * 200_000 + b"]" * 200_000)
        self.assertTrue(_is_unreadable(line))
        program.process.stdin.write(line + b"\n")
        program.process.stdin.flush()
        self.assertEqual(program.result("x")["outcome"], "fatal")
        self.assertEqual(program.result(first)["outcome"], "done")

    def test_failures_are_retries_and_others_go_on(self):
        program = self.started()
        self.assertTrue(program.ask("raise")["error"].startswith("LookupError: no\n"))
        self.assertIn("CancelledError", program.ask("cancels.itself")["error"])
        self.assertEqual(program.ask("sleep", 0)["outcome"], "done")

    def test_synchronous_handlers_run_one_at_a_time_beside_the_others(self):
        program = self.started()
        refs = [program.job("sync") for _ in range(5)]
        fast = program.job("sleep", 0)
        results = [program.result() for _ in range(6)]
        self.assertEqual([r["result"] for r in results if r["ref"] in refs], [1] * 5)
        self.assertNotEqual(results[-1]["ref"], fast)

    def test_jobs_whose_program_ends_because_of_another_one_have_no_answer(self):
        tail = """
        import signal

        @streamfleet.on("failed")
        @streamfleet.on("retry")
        @streamfleet.on("after")
        def tell(job, outcome):
            print("told", job.type)

        @job("wait")
        async def wait(job):
            job.progress(1)
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if job.payload == "return":
                    return "half of it"
                raise

        @job("wait.sync")
        def wait_sync(job):
            job.progress(1)
            time.sleep(0.5)

        # What runs in the background of a shell ignores it.
        signal.signal(signal.SIGINT, signal.default_int_handler)

        async def child():
            raise SystemExit(3)

        @job("end")
        async def end(job):
            if job.payload == "exit":
                await asyncio.gather(child())
            elif job.payload == "interrupt":
                raise KeyboardInterrupt
            elif job.payload == "stop":
                asyncio.get_running_loop().stop()
            await asyncio.sleep(60)

        streamfleet.run()
        """
        for how in ("exit", "interrupt", "stop", "signal"):
            with self.subTest(how):
                program = self.started(tail)
                for job_type, payload in (("wait.sync", None), ("wait", None), ("wait", "return")):
                    program.job(job_type, payload)
                    self.assertEqual(program.read()["type"], "progress")
                if how == "signal":
                    os.kill(program.process.pid, signal.SIGINT)
                else:
                    program.job("end", how)
                    program.job("wait")
                lines, code = program.end()
                self.assertEqual([line for line in lines if line["type"] != "progress"], [])
                self.assertNotEqual(code, 0)
                self.assertNotIn("told", program.errors())

    def test_an_answer_that_is_fixed_is_sent_though_its_job_is_cut_short_or_the_program_ends(self):
        tail = """
        @streamfleet.on("after")
        async def tell(job, outcome):
            job.progress(2)
            await asyncio.sleep(60)

        @job("pay")
        async def pay(job):
            return "R-7"

        async def child():
            raise SystemExit(3)

        @job("end")
        async def end(job):
            await asyncio.gather(child())

        streamfleet.run()
        """
        program = self.started(tail)
        ref = program.job("pay")
        self.assertEqual(program.read()["type"], "progress")
        program.send({"type": "cancel", "ref": ref, "reason": "timeout"})
        self.assertEqual(program.read()["result"], "R-7")
        ref = program.job("pay")
        self.assertEqual(program.read()["type"], "progress")
        program.job("end")
        lines, code = program.end()
        answers = [(line["ref"], line["outcome"], line["result"]) for line in lines if "outcome" in line]
        self.assertEqual((answers, code != 0), ([(ref, "done", "R-7")], True))

    def test_a_job_with_a_listener_that_hangs_gives_its_place_to_the_next_one_when_it_is_cut_short(self):
        tail = """
        @streamfleet.on("after")
        async def tell(job, outcome):
            if job.payload == "hang":
                job.progress(2)
                await asyncio.sleep(10**6)

        @job("pay")
        async def pay(job):
            return "R-7"

        streamfleet.run()
        """
        program = self.started(tail, inflight=1)
        for _ in range(3):
            ref = program.job("pay", "hang")
            self.assertEqual(program.read()["type"], "progress")
            waiting = program.job("pay")
            program.send({"type": "cancel", "ref": ref, "reason": "timeout"})
            self.assertEqual(program.result(ref)["result"], "R-7")
            self.assertEqual(program.result(waiting)["result"], "R-7")
        program.close()
        lines, code = program.end()
        self.assertEqual((lines, code), ([{"type": "bye"}], 0))

    def test_sigterm_finishes_jobs_and_snoozes_what_comes_after(self):
        program = self.started()
        first = program.job("sleep", 1)
        program.ask("sleep", 0)
        program.terminate()
        late = []
        until = time.monotonic() + 20
        while not late or late[-1]["outcome"] != "snooze":
            self.assertLess(time.monotonic(), until)
            late.append(program.ask("sleep", 0))
        self.assertEqual(late[-1]["delay_ms"], 1000)
        lines, code = program.end()
        self.assertEqual((lines[0]["ref"], lines[0]["outcome"]), (first, "done"))
        self.assertEqual((lines[1:], code), ([{"type": "bye"}], 0))

    def test_end_of_input_finishes_jobs(self):
        program = self.started()
        ref = program.job("sleep", 0.3)
        program.close()
        lines, code = program.end()
        self.assertEqual([line.get("ref") for line in lines], [ref, None])
        self.assertEqual((lines[-1], code), ({"type": "bye"}, 0))

    def test_max_jobs_counts_jobs_that_started(self):
        program = self.started(tail="streamfleet.run(max_jobs=2)")
        refs = [program.job("sleep", 0.3) for _ in range(3)]
        lines, code = program.end()
        outcomes = {line["ref"]: line["outcome"] for line in lines[:-1]}
        self.assertEqual(outcomes, {refs[0]: "done", refs[1]: "done", refs[2]: "snooze"})
        self.assertEqual((lines[-1], code), ({"type": "bye"}, 0))

    def test_no_more_jobs_begin_than_were_agreed(self):
        program = Program(textwrap.dedent(ASYNC) + "\nstreamfleet.run()")
        self.addCleanup(program.__exit__)
        self.assertEqual(program.hello(2, ahead=8)["ahead"], 8)
        hung = [program.job("hang") for _ in range(2)]
        unwanted, after = program.job("sleep", 0), program.job("sleep", 0)
        program.send({"type": "cancel", "ref": unwanted, "reason": "cancelled"})
        self.assertEqual(program.result(unwanted)["outcome"], "snooze")
        program.send({"type": "cancel", "ref": hung[0], "reason": "timeout"})
        self.assertIn("interrupted: timeout", program.result(hung[0])["error"])
        self.assertEqual(program.result(after)["result"], f"job-{after}")

    def test_asynchronous_middleware_surrounds_both_kinds(self):
        tail = """
        @streamfleet.middleware
        async def around(job, call_next):
            return ["around", await call_next(job)]
        streamfleet.run()
        """
        program = self.started(tail=tail)
        self.assertEqual(program.ask("sleep", 0)["result"], ["around", "job-1"])
        self.assertEqual(program.ask("sync")["result"], ["around", 1])

    def test_a_middleware_of_the_wrong_kind_is_refused_at_the_start(self):
        tail = "@streamfleet.middleware\ndef around(job, call_next):\n    return 1\nstreamfleet.run()\n"
        program = Program(textwrap.dedent(ASYNC) + "\n" + tail)
        self.addCleanup(program.__exit__)
        self.assertEqual(program.end(), ([], 1))
        self.assertIn("the middleware around must be async def", program.errors())


class Units(unittest.TestCase):
    def test_delays_are_finite_and_not_negative(self):
        for delay in (-1, float("nan"), float("inf")):
            with self.subTest(delay), self.assertRaises(ValueError):
                Snooze(delay)
        with self.assertRaises(TypeError):
            Retry("x", delay="5")
        self.assertEqual(Retry("x", delay=0.0015)._fields()["delay_ms"], 2)

    def test_a_handler_can_be_called_without_a_worker(self):
        worker = streamfleet.Worker()

        @worker.job("mail.send", max_attempts=4)
        def send(job):
            job.progress(50)
            job.log("sent")
            if "@" not in job.payload["to"]:
                return Fatal("not an address")
            return {"sent": True}

        self.assertEqual(send(Job("mail.send", {"to": "ann@example.com"})), {"sent": True})
        self.assertIsInstance(send(Job("mail.send", {"to": "ann"})), Fatal)

    def test_a_handler_needs_a_type_that_jobs_can_have(self):
        worker = streamfleet.Worker()
        with self.assertRaisesRegex(TypeError, 'write @job\\("mail.send"\\)'):
            worker.job(lambda job: 1)
        with self.assertRaisesRegex(ValueError, "type does not match .*: 'Mail.Send'"):
            worker.job("Mail.Send")

    def test_a_handler_makes_submissions_with_its_defaults(self):
        handler = streamfleet.Worker().job("mail.send", max_attempts=4, queue="mail")(lambda job: 1)
        made = handler.submission({"to": "ann"}, queue="slow")
        self.assertEqual((made.queue, made.fields), ("slow", [(b"type", b"mail.send"), (b"payload", b'{"to":"ann"}'), (b"max_attempts", b"4")]))
        self.assertEqual(dict(handler.submission().fields)[b"payload"], b"null")
        with self.assertRaisesRegex(TypeError, "use max_attempts"):
            handler.submission(max_attempt=4)

    def test_a_job_of_a_test_may_have_a_step(self):
        self.assertEqual((Job("x", step="charge").step, Job("x", message={"step": "mail"}).step, Job("x").step), ("charge", "mail", None))

    def test_a_type_has_one_handler(self):
        worker = streamfleet.Worker()
        worker.job("x")(lambda job: None)
        with self.assertRaises(ValueError):
            worker.job("x")(lambda job: None)

    def test_run_without_handlers_is_an_error(self):
        with self.assertRaises(RuntimeError):
            streamfleet.Worker().run()

    def test_enqueue_merges_the_defaults_of_the_decorator(self):
        worker = streamfleet.Worker()
        sent = []

        class Recorder:
            def enqueue(self, *args, **options):
                sent.append((args, options))
                return "1-0"

        @worker.job("mail.send", max_attempts=4, queue="mail")
        def send(job):
            return Drop("never")

        with self.assertRaises(RuntimeError):
            send.enqueue({})
        self.assertEqual(send.enqueue({"to": "a"}, producer=Recorder(), queue="slow"), "1-0")
        self.assertEqual(sent, [(("mail.send", {"to": "a"}), {"max_attempts": 4, "queue": "slow"})])


if __name__ == "__main__":
    unittest.main()
