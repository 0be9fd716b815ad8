"""``manage.py streamfleet_worker`` runs the tasks of this project: it becomes the program ``streamfleet worker``."""

import json
import os
import shutil
import sys
from typing import Any, Dict, List, Optional

from django.core.management.base import BaseCommand, CommandError

from ..._compat import task_backends
from ...backend import TYPE, StreamfleetBackend


class Command(BaseCommand):
    help = "Runs tasks with a worker of streamfleet, whose programs load this project once."

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("--backend", default="default", help="the name of the backend in TASKS")
        parser.add_argument("--processes", type=int, help="how many programs run tasks at once; those of the settings, or else 4")
        parser.add_argument("--program", default=os.environ.get("STREAMFLEET_BIN", "streamfleet"), help="the program streamfleet")
        parser.add_argument("--print-config", action="store_true", help="print the configuration of the worker, and start none")

    def handle(self, *args: Any, **options: Any) -> None:
        backend = task_backends[options["backend"]]
        if not isinstance(backend, StreamfleetBackend):
            raise CommandError(f"TASKS[{options['backend']!r}] names another backend: its BACKEND must be streamfleet_django.StreamfleetBackend")
        text = configuration(backend, options["processes"])
        if options["print_config"]:
            self.stdout.write(text)
            return
        program = shutil.which(options["program"])
        if program is None:
            raise CommandError(f"there is no program {options['program']!r}: install streamfleet, or name it with --program")
        # Nobody else may read what the settings say about Redis. The file has no name any more when the worker has read it.
        # A file in memory leaves nothing behind.
        descriptor = os.memfd_create("streamfleet.toml", 0)
        os.write(descriptor, text.encode())
        path = f"/proc/self/fd/{descriptor}"
        os.execve(program, [program, "--config", path, "worker"], {**os.environ, **environment(backend)})


def environment(backend: StreamfleetBackend) -> Dict[str, str]:
    """What the worker gets as variables, because it may have a password."""
    return {} if backend.settings["url"] is None else {"STREAMFLEET__REDIS__URL": backend.url}


def configuration(backend: StreamfleetBackend, processes: Optional[int]) -> str:
    """The configuration of a worker that runs the tasks of this backend."""
    given = {"processes": 4, "max_jobs": None, "max_memory": None, **backend.settings["worker"]}
    given["processes"] = processes or given["processes"]
    if not backend.queues:
        raise CommandError(f"TASKS[{backend.alias!r}]['QUEUES'] is empty, so the worker does not know which queues to serve: name them")
    pool = {
        "command": [sys.executable, "-m", "streamfleet_django"],
        "directory": os.getcwd(),
        "env": {"DJANGO_SETTINGS_MODULE": os.environ["DJANGO_SETTINGS_MODULE"], "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        "pass_env": passed(),
        # A large project takes a while until it is loaded.
        "start_timeout": "1m",
        **{name: value for name, value in given.items() if value is not None},
    }
    lines: List[str] = [f"[redis]\nnamespace = {toml(backend.settings['namespace'])}\n"]
    for queue in sorted(backend.queues):
        lines.append(f"[queues.{toml(queue)}]\nconcurrency = {given['processes']}\n")
    lines.append("[pools.django]\n" + "".join(f"{name} = {toml(value)}\n" for name, value in pool.items()))
    terms = {"tracking": "all", "max_attempts": int(backend.settings["max_attempts"]), "backoff": backend.settings["backoff"]}
    section = "".join(f"{name} = {toml(value)}\n" for name, value in terms.items() if value is not None)
    lines.append(f'[types.{toml(TYPE)}]\nhandler = {{ pool = "django" }}\n{section}')
    return "\n".join(lines)


def passed() -> List[str]:
    """The variables of this process that programs get: a worker passes none on that its configuration does not name."""
    own = ("DJANGO_SETTINGS_MODULE", "PYTHONPATH", "PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_")
    return sorted(name for name in os.environ if name not in own and not name.startswith("STREAMFLEET_"))


def toml(value: Any) -> str:
    """A value as TOML, whose texts, numbers and lists are those of JSON."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {toml(each)}" for key, each in value.items()) + " }"
    return json.dumps(value)
