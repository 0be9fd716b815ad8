#!/usr/bin/env python3
"""usage: record.py PROGRAM [FOLDER]

Records `top` at work: with the real program, a private Redis and jobs that wait, fail and are dead. Writes top.cast, a recording for
asciinema, and top.svg, a picture that moves, to FOLDER, by default docs/pictures. Needs redis-server on the PATH, and nothing else.
"""

import fcntl
import json
import os
import pty
import select
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

from drawing import svg

COLUMNS, LINES = 100, 26
TITLE = "streamfleet top: a cause is found, a queue is paused, and dead letters are replayed"

CONFIG = """
[telemetry]
listen = "off"
[queues.mail]
concurrency = 4
[queues.report]
concurrency = 2
[types."mail.newsletter"]
handler = "noop"
[types."mail.send"]
max_attempts = 1
handler = { exec = { command = ["sh", "-c", "echo 'SMTPException: 550 the relay refuses the sender' >&2; exit 65"] } }
[types.report]
handler = { exec = { command = ["sleep", "30"] } }
"""

# How long to wait for, and then what to press: at the pace of somebody who reads.
KEYS = [
    (2.5, "j"), (0.8, "k"), (1.2, "4"), (2.5, "r"), (1.5, "\r"), (0.8, "the relay is back"), (1.2, "\r"),
    (2.0, "7"), (2.5, "\x1b"), (0.8, "1"), (1.2, "p"), (1.0, "1h"), (0.8, "\r"), (0.6, "the campaign was a mistake"),
    (1.2, "\r"), (2.0, "\r"), (2.0, "?"), (3.0, "q"), (1.0, "q"),
]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until_answered(port):
    deadline = time.monotonic() + 30
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def fill(run):
    """Makes jobs: some wait at a gate, some run long, and some die."""
    run("gates", "set", "type:mail.newsletter", "--rate", "2/s", "--queue", "mail", "--by", "ann")
    for job_type, queue, count in [("mail.newsletter", "mail", 1500), ("mail.send", "mail", 40), ("report", "report", 6)]:
        lines = "".join(json.dumps({"type": job_type, "payload": {"customer": n % 9}}) + "\n" for n in range(count))
        run("enqueue", "--bulk", "--queue", queue, stdin=lines)


def record(program, args):
    """Runs a program on a terminal, presses the keys, and returns what it has written, with the times."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color")
        os.environ.pop("NO_COLOR", None)
        os.execv(program, [program, *args])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    start, events, rest = time.monotonic(), [], b""
    keys = [(sum(pause for pause, _ in KEYS[: nth + 1]), key) for nth, (_, key) in enumerate(KEYS)]
    while True:
        now = time.monotonic() - start
        while keys and keys[0][0] <= now:
            os.write(terminal, keys.pop(0)[1].encode())
        if not select.select([terminal], [], [], 0.02)[0]:
            if not keys and now > sum(pause for pause, _ in KEYS) + 5:
                sys.exit("the program does not end")
            continue
        try:
            written = os.read(terminal, 65536)
        except OSError:
            written = b""
        if not written:
            break
        rest += written
        # A character may be cut at the end.
        text = rest.decode(errors="ignore")
        rest = rest[len(text.encode()) :]
        events.append((round(time.monotonic() - start, 3), text))
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status != 0:
        sys.exit(f"the program ended with the exit code {status}")
    # The last thing that it writes gives the terminal back.
    return [(at, text) for at, text in events if "\x1b[?1049l" not in text]


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__.splitlines()[0])
    program = str(Path(sys.argv[1]).resolve())
    folder = Path(sys.argv[2] if len(sys.argv) > 2 else Path(__file__).parents[2] / "docs/pictures")
    with tempfile.TemporaryDirectory() as scratch:
        port, config = free_port(), Path(scratch, "config.toml")
        config.write_text(CONFIG)
        server = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", scratch]
        common = ["--config", str(config), "--redis", f"redis://127.0.0.1:{port}"]

        def run(*args, stdin=""):
            subprocess.run([program, *common, *args], input=stdin, text=True, check=True, stdout=subprocess.DEVNULL)

        redis = subprocess.Popen(server, stdout=subprocess.DEVNULL)
        try:
            until_answered(port)
            fill(run)
            worker = subprocess.Popen([program, *common, "worker"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                # The leader takes a sample a minute: two of them make a trend.
                time.sleep(float(os.environ.get("RECORD_AFTER", "130")))
                events = record(program, [*common, "top", "--every", "500ms", "--by", "ann"])
            finally:
                worker.kill()
                worker.wait()
        finally:
            redis.kill()
            redis.wait()
    head = {"version": 2, "width": COLUMNS, "height": LINES, "title": TITLE, "env": {"TERM": "xterm-256color"}}
    cast = [json.dumps(head)] + [json.dumps([at, "o", text]) for at, text in events]
    (folder / "top.cast").write_text("\n".join(cast) + "\n")
    (folder / "top.svg").write_text(svg(COLUMNS, LINES, events, TITLE))


if __name__ == "__main__":
    main()
