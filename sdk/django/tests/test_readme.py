"""The quick start of the README, with the real program."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import django

from tests.fleet import BIN, DEADLINE
from tests.server import Server

SDK = Path(__file__).parent.parent
BLOCK = re.compile(r"^<!-- run: (?P<how>[^\n]*) -->\n```\w+\n(?P<code>.*?)^```$", re.M | re.S)
BLOCKS = [(match["how"], match["code"]) for match in BLOCK.finditer((SDK / "README.md").read_text())]


@unittest.skipUnless(BIN, "STREAMFLEET_BIN is not set: the tests with the real program are skipped")
class QuickStart(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.stop)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "venv/bin").mkdir(parents=True)
        for name, target in (("python", [sys.executable]), ("django-admin", [sys.executable, "-m", "django"])):
            script = self.folder / "venv/bin" / name
            script.write_text(f'#!/bin/sh\nexec {shlex.join(target)} "$@"\n')
            script.chmod(0o755)
        (self.folder / "program").mkdir()
        os.symlink(os.path.abspath(BIN), self.folder / "program/streamfleet")
        self.env = {
            # Other tests have settings of their own.
            **{name: value for name, value in os.environ.items() if not name.startswith(("DJANGO_", "SHOP_"))},
            "PATH": f"{self.folder}/program:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(SDK), str(SDK.parent / "python")]),
            "STREAMFLEET__TELEMETRY__LISTEN": "off",
        }

    def code(self, how):
        (code,) = (code for each, code in BLOCKS if each == how)
        code = code.replace("6379", str(self.server.port))
        # As the page says.
        return code if django.VERSION >= (6,) else code.replace("from django.tasks", "from django_tasks")

    def run_shell(self, code):
        done = subprocess.run(["sh", "-ec", code], cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_it_works(self):
        # check.sh installs the packages.
        self.run_shell("\n".join(line for line in self.code("shell install").splitlines() if "pip" not in line and "venv venv" not in line))
        for how, _ in BLOCKS:
            kind, _, name = how.partition(" ")
            if kind in ("file", "append"):
                with open(self.folder / name, "a" if kind == "append" else "w") as file:
                    file.write(self.code(how))
        log = open(self.folder / "log", "wb")
        self.addCleanup(log.close)
        worker = subprocess.Popen(shlex.split(self.code("shell worker")), cwd=self.folder, env=self.env, stdout=log, stderr=log, start_new_session=True)
        self.addCleanup(worker.wait)
        self.addCleanup(lambda: worker.poll() is None and os.killpg(worker.pid, signal.SIGKILL))
        self.assertEqual(self.run_shell(self.code("shell enqueue")).splitlines()[-1], "SUCCESSFUL Hello Ann", (self.folder / "log").read_text())

    def test_every_block_says_how_it_is_run(self):
        self.assertEqual([how.split(" ")[0] for how, _ in BLOCKS], ["shell", "file", "append", "shell", "shell"])
        self.assertTrue(shutil.which("sh"))


if __name__ == "__main__":
    unittest.main()
