"""Plays the worker's part of the pool protocol: starts a program, and talks to it through pipes."""

import json
import os
import select
import signal
import subprocess
import sys
import textwrap
import time

from streamfleet import _producer, _worker

HERE = os.path.dirname(os.path.abspath(__file__))
SDK = os.path.dirname(HERE)
DEADLINE = 20.0


def environment(**more):
    path = os.pathsep.join(filter(None, [SDK, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "STREAMFLEET_POOL": "python", "STREAMFLEET_PROTOCOL": "1", **more}


def keep_registered(test):
    """What a test registers with `@job` is forgotten after it."""
    for names in (_worker._default.handlers, _producer.DECLARED):
        test.addCleanup(names.update, dict(names))
        test.addCleanup(names.clear)


class Program:
    """A program of a pool. Every wait has a deadline."""

    def __init__(self, code=None, *, args=None, cwd=None, env=None):
        command = [sys.executable, *(args or ["-c", textwrap.dedent(code)])]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=environment(**(env or {})),
            start_new_session=True,
        )
        self.buffer = b""
        self.stderr = b""
        self.refs = 0
        self.closed = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                stream.close()
            except OSError:
                pass

    def send(self, *messages):
        """Writes all of them at once."""
        self.process.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
        self.process.stdin.flush()

    def hello(self, inflight=1, **more):
        """Greets the program, by default as the first workers do."""
        hello = {"type": "hello", "protocol": 1, "streamfleet": "0.9.0", "pool": "python", "inflight": inflight}
        self.send({**hello, **more})
        ready = self.read()
        assert ready["type"] == "ready", ready
        return ready

    def job(self, job_type, payload=None, **more):
        message = self._job(job_type, payload, **more)
        self.send(message)
        return message["ref"]

    def jobs(self, count, job_type, payload=None):
        """Sends this many at once, before the program can end because of one of them."""
        messages = [self._job(job_type, payload) for _ in range(count)]
        self.send(*messages)
        return [message["ref"] for message in messages]

    def _job(self, job_type, payload=None, **more):
        self.refs += 1
        ref = str(self.refs)
        message = {
            "type": "job",
            "ref": ref,
            "id": f"job-{ref}",
            "job_type": job_type,
            "queue": "default",
            "attempt": 1,
            "max_attempts": 5,
            "timeout_ms": 30000,
            "created_ms": 1700000000000,
            "headers": {},
            "encoding": "json",
            "payload": payload,
            "of a later version": True,
            **more,
        }
        if "payload_base64" in more:
            del message["payload"]
        return message

    def read(self):
        """The next line, parsed; None at the end of the output."""
        until = time.monotonic() + DEADLINE
        while b"\n" not in self.buffer:
            ready, _, _ = select.select(
                [self.process.stdout, self.process.stderr], [], [], max(0, until - time.monotonic())
            )
            if not ready:
                raise AssertionError(f"no line within {DEADLINE} s; standard error: {self.stderr.decode()}")
            if self.process.stderr in ready:
                data = os.read(self.process.stderr.fileno(), 65536)
                self.stderr += data
                if not data and self.process.stdout not in ready:
                    ready, _, _ = select.select([self.process.stdout], [], [], max(0, until - time.monotonic()))
            if self.process.stdout in ready:
                data = os.read(self.process.stdout.fileno(), 65536)
                if not data:
                    assert not self.buffer, f"a line was cut off: {self.buffer!r}"
                    return None
                self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def result(self, ref=None):
        """The next result, without what was logged and reported before it."""
        while True:
            message = self.read()
            assert message is not None, self.errors()
            if message["type"] == "result":
                assert ref in (None, message["ref"]), message
                return message

    def ask(self, job_type, payload=None, **more):
        return self.result(self.job(job_type, payload, **more))

    def close(self):
        self.process.stdin.close()

    def terminate(self):
        os.kill(self.process.pid, signal.SIGTERM)

    def end(self):
        """Everything up to the end of the output, and the exit code."""
        lines = []
        while True:
            line = self.read()
            if line is None:
                return lines, self.process.wait(DEADLINE)
            lines.append(line)

    def printed(self):
        """What the program has written to standard error until now."""
        while select.select([self.process.stderr], [], [], 0)[0]:
            data = os.read(self.process.stderr.fileno(), 65536)
            if not data:
                break
            self.stderr += data
        return self.stderr.decode()

    def errors(self):
        while True:
            data = os.read(self.process.stderr.fileno(), 65536)
            if not data:
                return self.stderr.decode()
            self.stderr += data
