"""A Redis of a test's own, on a free port of the loopback, in a folder of its own."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

DEADLINE = 20.0


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def binary():
    return os.environ.get("STREAMFLEET_TEST_REDIS") or shutil.which("redis-server") or shutil.which("valkey-server")


class Server:
    def __init__(self, *options):
        server = binary()
        if server is None:
            raise unittest.SkipTest("neither redis-server nor valkey-server is on the PATH")
        self.folder = tempfile.TemporaryDirectory()
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            [server, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", self.folder.name, *options],
            stdout=subprocess.DEVNULL,
        )
        until = time.monotonic() + DEADLINE
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                    connection.sendall(b"PING\r\n")
                    if connection.recv(16)[:5] in (b"+PONG", b"-NOAU"):
                        return
            except OSError:
                pass
            if time.monotonic() > until or self.process.poll() is not None:
                self.stop()
                raise AssertionError("the Redis of this test did not start")
            time.sleep(0.01)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()
