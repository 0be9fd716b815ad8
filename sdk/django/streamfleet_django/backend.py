"""The backend: what Django's tasks ask for, as jobs of a fleet."""

import importlib
import os
import re
from datetime import datetime, timezone
from functools import cache, cached_property
from typing import Any, Dict, Mapping, Optional

from django.conf import settings
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.utils.crypto import get_random_string
from django.utils.module_loading import import_string
from django.utils.timezone import get_default_timezone, is_naive, make_aware, make_naive

from streamfleet import Producer, Status, Submission

from ._compat import BaseTaskBackend, Task, TaskError, TaskResult, TaskResultDoesNotExist, TaskResultStatus, normalize_json, task_enqueued
from ._store import FAILED, RUNNING, SUCCEEDED, Kept, Store

#: The type of all jobs of the backend. A header has the path of the task.
TYPE = "django.task"
HEADER = "task"

#: The options of the backend, and what each is if it is not set.
OPTIONS: Dict[str, Any] = {
    "url": None,
    "client": None,
    "namespace": "sf",
    "max_attempts": 1,
    "timeout": None,
    "backoff": None,
    "tasks": {},
    "result_ttl": 3 * 24 * 3600,
    "worker": {},
}

#: The class of an exception, as the first line of an error names it.
_CLASS = re.compile(r"([A-Za-z_][\w.]*)(?::|$)", re.M)


class StreamfleetBackend(BaseTaskBackend):
    """Enqueues tasks as jobs of streamfleet.

    ``OPTIONS`` has ``url``, the address of Redis, or ``client``, the path of a function that returns a redis-py client; further
    options are described in the README.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, dict(params))
        unknown = sorted(set(self.options) - set(OPTIONS))
        if unknown:
            raise ImproperlyConfigured(f"TASKS[{alias!r}]: there is no option {unknown[0]!r}; there are {', '.join(OPTIONS)}")
        self.settings: Dict[str, Any] = {**OPTIONS, **self.options}

    @cached_property
    def client(self) -> Any:
        """The redis-py client of this process."""
        return _client(self.settings["client"], self.url)

    @property
    def url(self) -> str:
        """The address of Redis."""
        return str(self.settings["url"] or os.environ.get("STREAMFLEET__REDIS__URL") or "redis://127.0.0.1:6379")

    @cached_property
    def producer(self) -> Producer:
        """What submits the jobs."""
        return Producer(self.client, namespace=self.settings["namespace"])

    @cached_property
    def store(self) -> Store:
        """What keeps the results."""
        return Store(self.client, self.settings["namespace"], self.settings["result_ttl"])

    def terms(self, path: str) -> Dict[str, Any]:
        """What the settings allow a task."""
        terms = {name: self.settings[name] for name in ("max_attempts", "timeout")}
        return {**terms, **self.settings["tasks"].get(path, {})}

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Submits a task."""
        self.validate_task(task)
        result = _result(task, get_random_string(32), normalize_json(list(args)), normalize_json(dict(kwargs)), self.alias)
        object.__setattr__(result, "enqueued_at", now())
        submission = self.submission(result)
        later = 0.0 if task.run_after is None else (_aware(task.run_after) - datetime.now(timezone.utc)).total_seconds()
        # First what the task is: a worker may be quicker than the next command.
        self.store.add(result.id, _told(result), later)
        self.producer.send(submission)
        task_enqueued.send(type(self), task_result=result)
        return result

    def submission(self, result: Any) -> Submission:
        """The job of a result."""
        task = result.task
        return Submission(
            TYPE,
            _told(result),
            id=result.id,
            queue=task.queue_name,
            lane="high" if task.priority > 0 else "low" if task.priority < 0 else "normal",
            run_at=None if task.run_after is None else _aware(task.run_after),
            tracking="all",
            headers={HEADER: task.module_path},
            **self.terms(task.module_path),
        )

    def get_result(self, result_id: str) -> Any:
        """Looks a result up."""
        kept = self.store.get(result_id)
        if kept is None:
            raise TaskResultDoesNotExist(result_id)
        return self.result_of(result_id, kept, self.producer.status(result_id, queue=kept.input["queue_name"]))

    def result_of(self, id: str, kept: Kept, status: Optional[Status]) -> Any:  # noqa: A002
        """What Django, and the fleet, know about a task."""
        told = kept.input
        task = task_of(told["task"]).using(
            priority=told["priority"], queue_name=told["queue_name"], run_after=_time(told["run_after"]), backend=told["backend"]
        )
        result = _result(task, id, told["args"], told["kwargs"], told["backend"])
        state = kept.state() if status is None else status.state
        attempts = kept.attempts
        set_ = object.__setattr__
        set_(result, "status", _status(state))
        set_(result, "enqueued_at", _time(told["enqueued_at"]))
        result.worker_ids.extend(attempt["worker"] for attempt in attempts)
        result.errors.extend(TaskError(**attempt["error"]) for attempt in attempts if attempt.get("error"))
        if attempts:
            set_(result, "started_at", _time(attempts[0]["started"]))
            set_(result, "last_attempted_at", _time(attempts[-1]["started"]))
        if state == SUCCEEDED:
            set_(result, "_return_value", kept.value)
        elif state in FAILED and not (attempts and attempts[-1].get("error")):
            # The program could not say it itself: it was killed, took too long, or never began.
            result.errors.append(_error((status and status.error) or f"the job is {state}"))
        if state == SUCCEEDED or state in FAILED:
            set_(result, "finished_at", _time(attempts[-1].get("finished") if attempts else None))
        return result

    def check(self, **kwargs: Any) -> Any:
        """Says what is wrong with the settings."""
        yield from super().check(**kwargs)
        for path, terms in self.settings["tasks"].items():
            wrong = sorted(set(terms) - {"max_attempts", "timeout"})
            if wrong:
                hint = "a task may have max_attempts and timeout"
                yield checks.Error(f"TASKS[{self.alias!r}]: the task {path} has no option {wrong[0]!r}", hint=hint, id="streamfleet.E001")


@cache
def _client(path: Optional[str], url: str) -> Any:
    """One client for all threads and tasks: each of them has a backend of its own."""
    if path is not None:
        return import_string(path)()
    # What only talks about the settings needs no client.
    return importlib.import_module("redis").Redis.from_url(url)


def _status(state: Optional[str]) -> Any:
    if state == SUCCEEDED:
        return TaskResultStatus.SUCCESSFUL
    if state in FAILED:
        return TaskResultStatus.FAILED
    return TaskResultStatus.RUNNING if state == RUNNING else TaskResultStatus.READY


def _result(task: Any, id: str, args: Any, kwargs: Any, backend: str) -> Any:  # noqa: A002
    return TaskResult(
        task=task,
        id=id,
        status=TaskResultStatus.READY,
        enqueued_at=None,
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=args,
        kwargs=kwargs,
        backend=backend,
        errors=[],
        worker_ids=[],
    )


def _told(result: Any) -> Dict[str, Any]:
    """What the handler and the store get."""
    task = result.task
    return {
        "task": task.module_path,
        "args": result.args,
        "kwargs": result.kwargs,
        "backend": result.backend,
        "queue_name": task.queue_name,
        "priority": task.priority,
        "run_after": None if task.run_after is None else _aware(task.run_after).isoformat(),
        "enqueued_at": None if result.enqueued_at is None else _aware(result.enqueued_at).isoformat(),
    }


def task_of(path: str) -> Any:
    """The task of a path. What a payload names must be one: it is no way to call any function."""
    task = import_string(path)
    if not isinstance(task, Task):
        raise ValueError(f"{path} is not a task")
    return task


def now() -> datetime:
    """The time as Django's settings want it."""
    return _local(datetime.now(timezone.utc))


def _time(text: Optional[str]) -> Optional[datetime]:
    return None if text is None else _local(datetime.fromisoformat(text))


def _local(time: datetime) -> datetime:
    return time if settings.USE_TZ else make_naive(time, get_default_timezone())


def _aware(time: datetime) -> datetime:
    return make_aware(time, get_default_timezone()) if is_naive(time) else time


def _error(text: str) -> Any:
    found = _CLASS.match(text)
    path = found[1] if found else ""
    if "." not in path:
        path = f"builtins.{path}" if path.endswith(("Error", "Exception")) else "builtins.RuntimeError"
    return TaskError(exception_class_path=path, traceback=text)
