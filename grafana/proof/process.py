"""The programs that the proof runs. Each is ended by its id, whatever happens; what they say is kept in files."""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import time


class Wrong(Exception):
    """What was found is not what must be."""


def free_ports(count):
    """Ports of this machine that nobody has. All are held at once, so that they differ."""
    with contextlib.ExitStack() as held:
        ports = []
        for _ in range(count):
            each = held.enter_context(socket.socket())
            each.bind(("127.0.0.1", 0))
            ports.append(each.getsockname()[1])
        return ports


def until(what, condition, seconds=30):
    """Waits for a condition, and gives what it gave."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.1)
    raise Wrong(f"{what}: not within {seconds} s")


class Programs:
    """Everything that was started. Leaving it ends them, the last one first."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.running = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.running):
            end(process)

    def start(self, name, command, **environment):
        """Starts a program that goes on."""
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
        """The end of what each program said."""
        for path in sorted(self.folder.glob("*.log")):
            for line in path.read_text(errors="replace").splitlines()[-8:]:
                yield f"{path.stem}: {line}"


def end(process):
    """Asks it to end; makes it end after 10 s."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answers(port):
    """Whether somebody listens."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
