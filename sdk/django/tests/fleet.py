"""The project of the tests with one of the backends: a Redis, a folder and workers of its own."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.server import Server

HERE = Path(__file__).parent
BIN = os.environ.get("STREAMFLEET_BIN")
#: How long anything may take on a very busy machine.
DEADLINE = 180.0


class Fleet:
    """Runs the project. ``backend`` is streamfleet, database or rq."""

    def __init__(self, backend, processes=2, server=None):
        self.owns, self.server = server is None, server or Server()
        self.folder = Path(tempfile.mkdtemp())
        self.site = self.folder / "site"
        shutil.copytree(HERE / "site", self.site)
        (self.folder / "notes").mkdir()
        (self.folder / "mails").mkdir()
        self.backend, self.processes, self.workers = backend, processes, []
        path = os.pathsep.join([str(HERE.parent), str(HERE.parent.parent / "python"), str(self.site)])
        self.env = {
            **os.environ,
            "PYTHONPATH": path,
            "DJANGO_SETTINGS_MODULE": "site_settings",
            "SHOP_BACKEND": backend,
            "SHOP_FOLDER": str(self.folder),
            "SHOP_REDIS": self.server.url,
            "SHOP_PROCESSES": str(processes),
        }
        if BIN:
            self.env["STREAMFLEET_BIN"] = os.path.abspath(BIN)
            self.env["STREAMFLEET__TELEMETRY__LISTEN"] = "off"
        if backend == "database":
            self.manage("migrate", "--verbosity=0")

    def manage(self, *args):
        done = subprocess.run([sys.executable, "manage.py", *args], cwd=self.site, env=self.env, capture_output=True, text=True, timeout=DEADLINE)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def script(self, code_or_file, *args):
        """Runs a program of the application, and returns what it printed."""
        command = [code_or_file] if code_or_file.endswith(".py") else ["-c", "import django; django.setup()\n" + code_or_file]
        done = subprocess.run([sys.executable, *command, *args], cwd=self.site, env=self.env, capture_output=True, text=True, timeout=2 * DEADLINE)
        assert done.returncode == 0, f"{done.stderr}; the worker said: {self.said()}"
        return done.stdout

    def work(self):
        """Starts a worker: its own program, as the documentation of each backend says."""
        commands = {
            "streamfleet": ["streamfleet_worker"],
            "database": ["db_worker", "--queue-name=*", "--interval=0.05"],
            "rq": ["rqworker", "reports", "default", "--job-class=django_tasks_rq.Job"],
        }
        log = open(self.folder / f"worker-{len(self.workers)}.log", "wb")
        command = [sys.executable, "manage.py", *commands[self.backend]]
        process = subprocess.Popen(command, cwd=self.site, env=self.env, stdout=log, stderr=log, start_new_session=True)
        log.close()
        self.workers.append(process)
        return process

    def said(self):
        return "\n".join(path.read_text(errors="replace")[-3000:] for path in self.folder.glob("worker-*.log"))

    def until(self, condition, what):
        end = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < end, f"{what}; the worker said: {self.said()}"
            time.sleep(0.01)

    def notes(self):
        return {int(path.name) for path in (self.folder / "notes").iterdir()}

    def stop(self):
        for process in self.workers:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if self.owns:
            self.server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
