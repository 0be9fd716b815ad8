"""Runs tasks in the program of a pool, as Django's own backends do: with signals, and with fresh connections to databases."""

import os
import socket
from traceback import format_exception
from typing import Any, Callable, Dict

from django.db import close_old_connections, reset_queries

from streamfleet import Job, Worker

from ._compat import TaskContext, TaskError, TaskResultStatus, normalize_json, task_backends, task_finished, task_started
from .backend import TYPE, Kept, StreamfleetBackend, now

worker = Worker()


@worker.middleware
def connections(job: Job[Any], call_next: Callable[[Job[Any]], Any]) -> Any:
    """A connection that is broken or too old is replaced, as it is between two requests."""
    reset_queries()
    close_old_connections()
    try:
        return call_next(job)
    finally:
        close_old_connections()


@worker.job(TYPE)
def run_task(job: Job[Dict[str, Any]]) -> Any:
    """Runs one attempt of a task."""
    backend = task_backends[job.payload["backend"]]
    if not isinstance(backend, StreamfleetBackend):
        raise ValueError(f"TASKS[{backend.alias!r}] is no backend of streamfleet: the job comes from other settings")
    me, set_ = f"{socket.gethostname()}:{os.getpid()}", object.__setattr__
    result = backend.result_of(job.id, Kept({"input": job.payload}), None)
    begun = now()
    for name, value in (("status", TaskResultStatus.RUNNING), ("started_at", begun), ("last_attempted_at", begun)):
        set_(result, name, value)
    # Earlier attempts count, in whatever program they ran.
    result.worker_ids.extend([me] * job.attempt)
    told: Dict[str, Any] = {"worker": me, "started": begun.isoformat()}
    backend.store.begin(job.id, job.attempt, told)
    task_started.send(sender=type(backend), task_result=result)
    try:
        context = (TaskContext(task_result=result),) if result.task.takes_context else ()
        value = normalize_json(result.task.call(*context, *result.args, **result.kwargs))
    except BaseException as error:
        kept = {"exception_class_path": _path(type(error)), "traceback": "".join(format_exception(type(error), error, error.__traceback__))}
        backend.store.end(job.id, job.attempt, {**told, "finished": now().isoformat(), "error": kept})
        result.errors.append(TaskError(**kept))
        if job.max_attempts is None or job.attempt >= job.max_attempts:
            _finished(backend, result, TaskResultStatus.FAILED)
        raise
    backend.store.end(job.id, job.attempt, {**told, "finished": now().isoformat()}, value)
    set_(result, "_return_value", value)
    _finished(backend, result, TaskResultStatus.SUCCESSFUL)
    return value


def _finished(backend: StreamfleetBackend, result: Any, status: Any) -> None:
    object.__setattr__(result, "finished_at", now())
    object.__setattr__(result, "status", status)
    task_finished.send(sender=type(backend), task_result=result)


def _path(class_: type) -> str:
    return f"{class_.__module__}.{class_.__qualname__}"


run = worker.run
