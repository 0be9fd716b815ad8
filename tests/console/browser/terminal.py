"""Somebody who uses a program on a terminal: presses keys, reads the screen, and counts."""

import codecs
import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time

from proof.process import Wrong
from screen import Screen

COLUMNS, LINES = 120, 40
# How long an answer may take on a busy machine, and how long a key takes to show, in seconds.
PATIENCE, SHOWN = 60, 2


class Terminal:
    """A program on a terminal of its own. `acts` counts the keys; a word that is typed counts as one."""

    def __init__(self, programs, command, environment):
        self._person, program = pty.openpty()
        fcntl.ioctl(program, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        known = {**{name: value for name, value in os.environ.items() if name != "NO_COLOR"}, **environment, "TERM": "xterm-256color"}
        ends = {"stdin": program, "stdout": program, "stderr": program}
        self._process = subprocess.Popen(command, cwd=programs.folder, env=known, start_new_session=True, **ends)
        programs.running.append(self._process)
        os.close(program)
        self._screen, self._decoder, self.acts = Screen(COLUMNS, LINES), codecs.getincrementaldecoder("utf-8")("replace"), 0

    def begin(self, text):
        """Waits until the program has taken the terminal, and shows a text: what is typed earlier means something else."""
        self.see(text)
        self.acts = 0

    def close(self):
        """Quits the program, as Ctrl-C does in every mode."""
        with contextlib.suppress(OSError):
            os.write(self._person, b"\x03")
        deadline = time.monotonic() + PATIENCE
        while self._process.poll() is None and time.monotonic() < deadline:
            self._look(0.05)
        os.close(self._person)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def press(self, *keys):
        """Presses keys one after the other."""
        for key in keys:
            self._send(key)

    def type(self, text):
        """Types a word or a sentence."""
        self._send(text)

    def until(self, what, condition):
        """Looks at the screen until a condition is true, and returns its value."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found = condition()
            if found:
                return found
            self._look(0.05)
        raise Wrong(f"the terminal does not show {what}, but {self._said()}")

    def see(self, text):
        """Waits until the screen shows a text, and returns its line."""
        return self.until(text, lambda: next((line for line in self.text().split("\n") if text in line), None))

    def choose(self, *texts):
        """Goes down until the row with these texts is selected."""
        for text in texts:
            self.see(text)
        for _ in range(LINES):
            selected = self._selected()
            if all(text in selected for text in texts):
                return
            self.press("j")
        raise Wrong(f"no row has {texts}: {self._said()}")

    def text(self):
        """Returns what the screen shows."""
        return "\n".join("".join(character for character, _ in line) for line in self._screen.cells)

    def _said(self):
        """Returns the lines of the screen that are not empty, as one."""
        return " | ".join(line.strip() for line in self.text().split("\n") if line.strip())[:4000]

    def _selected(self):
        """Returns the lines that stand out: those of the row that is selected."""
        lines = [line for line in self._screen.cells if any(style[3] for _, style in line)]
        return "\n".join("".join(character for character, _ in line) for line in lines)

    def _send(self, text):
        before, deadline = self.text(), time.monotonic() + SHOWN
        os.write(self._person, text.encode())
        self.acts += 1
        # A key is only followed by the next once somebody can see what it did, and all of it is drawn.
        while self.text() == before and time.monotonic() < deadline:
            self._look(0.05)
        while self._look(0.05) and time.monotonic() < deadline:
            pass

    def _look(self, seconds):
        """Takes what the program writes within this time. Returns whether it wrote something."""
        with contextlib.suppress(OSError):
            if select.select([self._person], [], [], seconds)[0]:
                self._screen.write(self._decoder.decode(os.read(self._person, 65536)))
                return True
        return False
