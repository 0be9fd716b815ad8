"""The programs that the proof runs. Each is always stopped by its process id. Their output goes to files."""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import time


class Wrong(Exception):
    """Something was found that is wrong."""


def free_ports(count):
    """Returns free ports of this machine. All are held at the same time, so that they differ."""
    with contextlib.ExitStack() as held:
        ports = []
        for _ in range(count):
            each = held.enter_context(socket.socket())
            each.bind(("127.0.0.1", 0))
            ports.append(each.getsockname()[1])
        return ports


def until(what, condition, seconds=30):
    """Waits for a condition to be true, and returns its value."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.1)
    raise Wrong(f"timed out after {seconds} s: {what}")


class Programs:
    """All programs that were started. Leaving the context stops them, the last one first."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.running = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.running):
            end(process)

    def start(self, name, command, **environment):
        """Starts a program in the background."""
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                [str(word) for word in command],
                cwd=self.folder,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.running.append(process)
        return process

    def words(self):
        """Yields the last lines of each program's output."""
        for path in sorted(self.folder.glob("*.log")):
            for line in path.read_text(errors="replace").splitlines()[-8:]:
                yield f"{path.stem}: {line}"


def end(process):
    """Terminates a process, and kills it after 10 s."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answers(port):
    """Returns whether something listens on the port."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
