"""The options of a decorator: they hold for every producer of the package, and the program prints them for the worker's configuration."""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

from streamfleet import Submission
from streamfleet import _producer as module
from tests.pool import environment

try:
    import tomllib
except ImportError:
    tomllib = None

HANDLERS = """
    import streamfleet
    print("imported")

    @streamfleet.job("mail.send", max_attempts=4, timeout=1.5, queue="mail", delay=60)
    def send(job): ...

    @streamfleet.job("report", tracking="all", on_success="mail.send", on_failure="desk.ask")
    def report(job): ...

    @streamfleet.job("plain")
    def plain(job): ...
"""
SECTIONS = {
    "mail.send": {"max_attempts": 4, "timeout": "1500ms"},
    "plain": {},
    "report": {"tracking": "all", "on_success": "mail.send", "on_failure": "desk.ask"},
}


class Declared(unittest.TestCase):
    def setUp(self):
        self.addCleanup(module.DECLARED.clear)
        module.DECLARED["mail.send"] = {"max_attempts": 4, "queue": "mail", "lane": "low", "delay": 60}

    def test_they_hold_for_each_submission_of_the_type(self):
        submission = Submission("mail.send", 1)
        self.assertEqual(dict(submission.fields)[b"max_attempts"], b"4")
        self.assertEqual((submission.queue, submission.lane), ("mail", "low"))
        self.assertNotIn(b"max_attempts", dict(Submission("mail.fetch").fields))

    def test_what_a_job_says_itself_counts_more(self):
        self.assertEqual(dict(Submission("mail.send", max_attempts=9).fields)[b"max_attempts"], b"9")
        self.assertNotIn(b"max_attempts", dict(Submission("mail.send", max_attempts=None).fields))
        self.assertEqual(Submission("mail.send", priority=9).lane, "high")
        self.assertNotIn(b"delay_ms", dict(Submission("mail.send", run_at=2_000_000_000).fields))


class Described(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.write("shop_jobs", HANDLERS)

    def write(self, name, text):
        with open(os.path.join(self.folder, f"{name}.py"), "w") as file:
            file.write(textwrap.dedent(text))

    def run_program(self, *args, **env):
        return subprocess.run([sys.executable, *args], cwd=self.folder, env=environment(**env), capture_output=True, text=True, timeout=60)

    def test_a_program_that_is_asked_writes_one_line(self):
        self.write("program", HANDLERS + "\n    streamfleet.run()\n")
        for args in (("-m", "streamfleet", "shop_jobs"), ("program.py",)):
            ended = self.run_program(*args, STREAMFLEET_DESCRIBE="1")
            self.assertEqual(ended.returncode, 0, ended.stderr)
            self.assertEqual(json.loads(ended.stdout.splitlines()[-1]), {"type": "handlers", "protocol": 1, "types": SECTIONS})

    def test_config_prints_sections_of_the_configuration(self):
        ended = self.run_program("-m", "streamfleet", "config", "shop_jobs")
        self.assertEqual((ended.returncode, ended.stderr), (0, "imported\n"))
        self.assertIn('[types."mail.send"]\nmax_attempts = 4\ntimeout = "1500ms"\n', ended.stdout)
        if tomllib is not None:
            self.assertEqual(tomllib.loads(ended.stdout), {"types": SECTIONS})

    def test_a_mistake_ends_it_with_the_reason(self):
        self.write("wrong", "import streamfleet\nstreamfleet.job('a', max_attempts=0)(print)\n")
        self.write("empty", "")
        for module_, reason in (("wrong", "max_attempts must be"), ("empty", "no handler is registered in empty"), ("nothing", "No module named")):
            ended = self.run_program("-m", "streamfleet", "config", module_)
            self.assertNotEqual(ended.returncode, 0)
            self.assertIn(reason, ended.stderr)

    @unittest.skipUnless(os.environ.get("STREAMFLEET_BIN"), "STREAMFLEET_BIN is not set")
    def test_the_worker_takes_what_it_prints(self):
        command = json.dumps([sys.executable, "-m", "streamfleet", "shop_jobs"])
        printed = self.run_program("-m", "streamfleet", "config", "shop_jobs").stdout
        printed = printed.replace("]\n", ']\nhandler = { pool = "python" }\n')
        path = json.dumps(environment()["PYTHONPATH"])
        with open(os.path.join(self.folder, "streamfleet.toml"), "w") as file:
            file.write(f"[pools.python]\ncommand = {command}\nenv = {{ PYTHONPATH = {path} }}\n\n{printed}")
        checked = subprocess.run([os.path.abspath(os.environ["STREAMFLEET_BIN"]), "config", "check"], cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)


if __name__ == "__main__":
    unittest.main()
