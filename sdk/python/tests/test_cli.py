"""Submissions by the program `streamfleet enqueue`: with the real one, and with one that notes what it gets."""

import asyncio
import os
import stat
import tempfile
import time
import unittest
from datetime import datetime, timedelta, timezone

from streamfleet import AsyncCli, Cli, Refused, Submission, Unconfirmed
from tests.server import Server, free_port

BIN = os.environ.get("STREAMFLEET_BIN")


def both(*args, **options):
    """Submits the same with Cli and with AsyncCli of these arguments, as two functions."""
    return (
        lambda *job, **more: Cli(*args, **options).enqueue(*job, **more),
        lambda *job, **more: asyncio.run(AsyncCli(*args, **options).enqueue(*job, **more)),
    )


class Played(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def program(self, script):
        path = os.path.join(self.folder, "program")
        with open(path, "w") as file:
            file.write(f"#!/bin/sh\ncd '{self.folder}'\n{script}\n")
        os.chmod(path, stat.S_IRWXU)
        return [path]

    def test_no_shell_and_no_argument_sees_the_payload(self):
        program = self.program("printf '%s\\n' \"$@\" > args; cat > input; echo '{\"id\":\"7\",\"state\":\"waiting\",\"existing\":false}'")
        for enqueue in both(program):
            enqueue("mail.send", {"password": "secret $(id)"}, unique="`id`; $HOME", headers={"t": "a b"}, max_attempts=3)
            with open(os.path.join(self.folder, "args")) as file:
                args = file.read().splitlines()
            with open(os.path.join(self.folder, "input")) as file:
                self.assertEqual(file.read(), '{"password":"secret $(id)"}')
            want = ["enqueue", "mail.send", "--queue=default", "--lane=normal", "-", "--max-attempts=3", "--header=t=a b"]
            self.assertEqual(args, [*want, "--unique=`id`; $HOME", "--output=json"])

    def test_a_scope_may_be_a_length(self):
        program = self.program("printf '%s\\n' \"$@\" > args; echo '{\"id\":\"7\",\"state\":\"waiting\",\"existing\":false}'")
        for enqueue in both(program):
            for scope, want in ((30, "30000ms"), (timedelta(minutes=1), "60000ms"), ("30s", "30s"), ("waiting", "waiting")):
                enqueue("report", unique="k", unique_scope=scope)
                with open(os.path.join(self.folder, "args")) as file:
                    self.assertIn(f"--unique-scope={want}", file.read().splitlines())
            with self.assertRaisesRegex(ValueError, "unique_scope"):
                enqueue("report", unique="k", unique_scope=-1)

    def test_a_debounce_submits_nothing_new(self):
        told = '{"id":"7","state":"scheduled","existing":false,"debounced":true}'
        for enqueue in both(self.program(f"echo '{told}'")):
            accepted = enqueue("report")
            self.assertEqual((accepted.is_debounced, accepted.is_new), (True, False))

    def test_times_are_arguments_that_the_program_reads(self):
        program = self.program("printf '%s\\n' \"$@\" > args; echo '{\"id\":\"7\",\"state\":\"waiting\",\"existing\":false}'")
        job = Submission("a", b"x", id="7", run_at=datetime(2030, 1, 1, tzinfo=timezone.utc), expires_at=1900000000.5, timeout=1.5)
        Cli(program).send(job, idempotent_for=timedelta(hours=48), durability="aof")
        with open(os.path.join(self.folder, "args")) as file:
            args = file.read().split()
        for want in (
            "--at=2030-01-01T00:00:00.000+00:00",
            "--expires-at=2030-03-17T17:46:40.500+00:00",
            "--timeout=1500ms",
            "--idempotent-for=172800000ms",
            "--durability=aof",
            "--encoding=raw",
        ):
            self.assertIn(want, args)

    def test_the_members_of_a_batch_are_lines_and_the_job_that_follows_is_an_argument(self):
        answer = '{"batch":"b","queue":"mail","members":2,"ids":["b.0","own"]}'
        program = self.program(f"printf '%s\\n' \"$@\" > args; cat > input; echo '{answer}'")
        members = [
            Submission(
                "a", {"n": 2**64 - 1, "text": "x\ny"}, queue="mail", headers={"tenant": "9"}, lane="high", max_attempts=2, timeout=1.5,
                tracking="all",
            ),
            Submission(
                "b", "Ännchen".encode(), id="own", delay=0.1, unique="k", unique_mode="replace", expires_at=1900000000.5,
                then=[{"type": "c"}],
            ),
            Submission("c", b'{\n"n": 2}', encoding="json", on_failure="d"),
        ]
        follow = Submission("total", {"month": 11}, queue="mail")
        for batch in (Cli(program).batch, lambda *args: asyncio.run(AsyncCli(program).batch(*args))):
            self.assertEqual(batch("b", iter(members), follow), ["b.0", "own"])
            with open(os.path.join(self.folder, "args")) as file:
                args = file.read().splitlines()
            want = '--follow={"lane":"normal","type":"total","payload":{"month":11}}'
            self.assertEqual(args, ["enqueue", "--bulk", "--queue=mail", "--batch=b", want, "--output=json"])
            with open(os.path.join(self.folder, "input"), encoding="utf-8") as file:
                lines = file.read().split("\n")
            self.assertEqual(
                lines,
                [
                    '{"lane":"high","type":"a","max_attempts":2,"timeout":1500,"track":true,"headers":{"tenant":"9"},'
                    '"payload":{"n":18446744073709551615,"text":"x\\ny"}}',
                    '{"lane":"normal","type":"b","encoding":"raw","id":"own","delay":100,"expires_at":"2030-03-17T17:46:40.500+00:00",'
                    '"payload":"Ännchen","unique":"k","unique_mode":"replace","then":[{"type":"c"}]}',
                    '{"lane":"normal","type":"c","on_failure":"d","payload":{ "n": 2}}',
                ],
            )

    def test_a_batch_that_cannot_be_meant_is_refused_before_the_program_starts(self):
        cli = Cli(["/no/such/program"])
        member, follow = Submission("a"), Submission("total")
        for members, last, why in (
            ([Submission("a", queue="mail")], follow, "one queue, and this one has 'default' and 'mail'"),
            ([Submission("a", batch="c")], follow, "no field batch"),
            ([Submission("a", b"\xff")], follow, "only if they are UTF-8"),
            ([Submission("a", b"\x01", encoding="msgpack")], follow, "no MessagePack"),
            ([member], Submission("total", delay=5), "cannot have a delay"),
        ):
            with self.subTest(why), self.assertRaisesRegex(ValueError, why):
                cli.batch("b", members, last)
        with self.assertRaisesRegex(ValueError, "batch must be 1 to 100 bytes"):
            cli.batch("b c", [member], follow)
        with self.assertRaises(Refused):
            cli.batch("b", [member], follow)

    def test_an_exit_code_says_what_became_of_the_job(self):
        for code, error in ((2, ValueError), (7, Refused), (127, Refused), (1, Unconfirmed), (3, Unconfirmed), (8, Unconfirmed)):
            for enqueue in both(self.program(f"echo because >&2; exit {code}")):
                with self.subTest(code), self.assertRaises(error):
                    enqueue("a", {})
        for text in ("the configuration has a problem: x", "the configuration has 2 problems:", "cannot reach redis at x: Connection refused"):
            for enqueue in both(self.program(f"echo 'error: {text}' >&2; exit 2")):
                with self.subTest(text), self.assertRaises(Refused):
                    enqueue("a", {})
        for enqueue in both(self.program("printf 'error: no\\n\\nUsage: x\\n\\nFor more information' >&2; exit 2")):
            with self.assertRaisesRegex(ValueError, "^error: no$"):
                enqueue("a", {})
        for enqueue in both(self.program("echo nonsense")):
            with self.assertRaises(Unconfirmed):
                enqueue("a", {})
        for enqueue in both(["/no/such/program"]):
            with self.assertRaisesRegex(Refused, "could not be started"):
                enqueue("a", {})

    def test_a_program_that_hangs_is_killed(self):
        for enqueue in both(self.program("echo $$ > pid; exec sleep 600"), timeout=0.5):
            with self.assertRaisesRegex(Unconfirmed, "0.5 s"):
                enqueue("a", {})
            with open(os.path.join(self.folder, "pid")) as file, self.assertRaises(ProcessLookupError):
                os.kill(int(file.read()), 0)

    def test_a_task_that_is_cancelled_kills_the_program(self):
        async def main():
            task = asyncio.create_task(AsyncCli(self.program("echo $$ > pid; exec sleep 600")).enqueue("a", {}))
            path = os.path.join(self.folder, "pid")
            end = time.monotonic() + 20
            while not (os.path.exists(path) and os.path.getsize(path)):
                self.assertLess(time.monotonic(), end)
                await asyncio.sleep(0.01)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            with open(path) as file, self.assertRaises(ProcessLookupError):
                os.kill(int(file.read()), 0)

        asyncio.run(main())

    def test_what_the_program_cannot_take_is_refused_before_it_starts(self):
        cli = Cli(["/no/such/program"])
        for rule, options in (
            ("no tracking but all", {"tracking": "none"}),
            ("no MessagePack", {"payload": b"\x01", "encoding": "msgpack"}),
            ("a '='", {"headers": {"a=b": "c"}}),
            ("NUL", {"unique": "a\0b"}),
            ("bytes", {"headers": {f"h{n}": "x" * 8000 for n in range(200)}}),
        ):
            with self.subTest(rule), self.assertRaisesRegex(ValueError, rule):
                cli.enqueue("a", **options)
        with self.assertRaises(TypeError):
            Cli("streamfleet --config x")


@unittest.skipUnless(BIN, "STREAMFLEET_BIN is not set: the tests with the real program are skipped")
class Real(unittest.TestCase):
    def setUp(self):
        server = Server()
        self.addCleanup(server.stop)
        self.env = {"STREAMFLEET__REDIS__URL": server.url}

    def test_an_id_is_accepted_once(self):
        for n, enqueue in enumerate(both([BIN], env=self.env)):
            first = enqueue("mail.send", {"to": "Ännchen"}, id=f"order-{n}", headers={"tenant": "9"}, delay=60, then=[{"type": "b"}])
            self.assertEqual((first.id, first.state, first.is_new), (f"order-{n}", "scheduled", True))
            again = enqueue("mail.send", {}, id=f"order-{n}")
            self.assertEqual((again.id, again.state, again.is_new), (f"order-{n}", "scheduled", False))

    def test_a_unique_key_keeps_others_out(self):
        for n, enqueue in enumerate(both([BIN], env=self.env)):
            first = enqueue("report", {"n": 1}, unique=f"report-{n}")
            second = enqueue("report", {"n": 2}, unique=f"report-{n}", unique_scope="running")
            self.assertEqual((first.is_new, second.is_new, second.id), (True, False, first.id))
            third = enqueue("report", {"n": 3}, unique=f"report-{n}", unique_mode="replace")
            self.assertEqual((third.is_new, third.replaced), (True, first.id))
            later = enqueue("report", {"n": 4}, unique=f"later-{n}", delay=600)
            debounced = enqueue("report", {"n": 5}, unique=f"later-{n}", unique_mode="debounce", delay=900)
            self.assertEqual((debounced.id, debounced.is_debounced, debounced.is_new), (later.id, True, False))

    def test_large_payloads_and_all_options_are_accepted(self):
        in_an_hour = datetime.now(timezone.utc) + timedelta(hours=1)
        cli = Cli([BIN], env=self.env)
        job = Submission("big", b"x" * (1 << 20), id="big", expires_at=in_an_hour, run_at=in_an_hour, lane="low", tracking="all")
        self.assertTrue(cli.send(job, idempotent_for=3600, durability="memory").is_new)
        more = cli.enqueue("b", 1, max_attempts=3, timeout=1.5, on_success="c", on_failure="d", queue="other", priority=9)
        self.assertTrue(more.is_new)

    def test_what_the_program_refuses_is_an_error(self):
        lost = {"STREAMFLEET__REDIS__URL": f"redis://127.0.0.1:{free_port()}"}
        for enqueue in both([BIN], env=self.env):
            with self.assertRaisesRegex(ValueError, "unique"):
                enqueue("a", unique="key", unique_mode="sometimes")
        with self.assertRaisesRegex(Refused, "cannot reach redis"):
            Cli([BIN], env=lost).enqueue("a")
        with self.assertRaisesRegex(Refused, "/no/such/file.toml"):
            Cli([BIN, "--config", "/no/such/file.toml"]).enqueue("a")


if __name__ == "__main__":
    unittest.main()
