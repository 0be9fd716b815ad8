"""Celery's way to write tasks, on streamfleet: ``from streamfleet.celery import Celery, chain, chord, group, shared_task``.

It is for applications that were written for Celery: tasks, ``delay``, ``apply_async``, retries, results, chains, groups and chords
work as they are. What it lacks is refused, or listed in the README. New code is simpler with ``streamfleet.job``.
"""

import importlib
import json
import re
import sys
import time
import uuid
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from . import _worker
from ._cli import Cli
from ._outcome import Done, Fatal, Outcome, Retry, described
from ._producer import NotEnded, Producer, Status, Submission
from .testing import run as run_inline

__all__ = ["AsyncResult", "Celery", "MaxRetriesExceededError", "Signature", "Task", "TaskFailed", "chain", "chord", "group", "shared_task"]

#: Celery's defaults.
MAX_RETRIES, RETRY_DELAY = 3, 180
#: What a result has besides its value if a chain goes on.
REST = "streamfleet.chain"
_STATES = {"running": "STARTED", "retrying": "RETRY", "done": "SUCCESS", "dead": "FAILURE", "cancelled": "REVOKED"}
#: What always holds here, or what only Celery's own worker has.
_IGNORED = ("acks_late", "ignore_result", "track_started", "serializer", "store_errors_even_if_ignored", "soft_time_limit", "throws")
_KNOWN = ("bind", "name", "max_retries", "default_retry_delay", "autoretry_for", "dont_autoretry_for", "retry_backoff", "retry_kwargs", "time_limit", "queue", "priority", "expires")
_CONF: Dict[str, Any] = {"broker_url": None, "task_default_queue": "default", "task_routes": {}, "task_always_eager": False, "streamfleet_url": None, "streamfleet_token": None}


class MaxRetriesExceededError(Exception):
    """A task asked for another attempt, and has none left."""


class TaskFailed(Exception):
    """A task has failed, and its exception is of no class that this program has imported."""


class _Again(Exception):
    """What ``self.retry()`` raises."""


class Conf(Dict[str, Any]):
    """The settings of an application; those that only concern Celery are kept, and do nothing."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


class Celery:
    """An application. ``broker`` is the address of Redis, and ``backend`` is not needed: the fleet keeps results."""

    current: "Optional[Celery]" = None

    def __init__(self, main: Optional[str] = None, *, broker: Optional[str] = None, backend: Optional[str] = None, producer: Any = None, **settings: Any) -> None:
        self.main = main
        self.conf = Conf(_CONF)
        self.conf.update(settings.pop("config", {}), broker_url=broker, result_backend=backend)
        self.tasks: Dict[str, Task] = {}
        self._producer = producer
        Celery.current = self

    @property
    def producer(self) -> Any:
        """What submits tasks and reads results: a :class:`Producer` of the broker, or a fake in a test."""
        if self._producer is None:
            redis = importlib.import_module("redis")
            self._producer = Producer(redis.Redis.from_url(self.conf.broker_url or "redis://127.0.0.1:6379"), queue=self.conf.task_default_queue)
        return self._producer

    @producer.setter
    def producer(self, producer: Any) -> None:
        self._producer = producer

    @property
    def batches(self) -> Any:
        """What opens the batch of a chord: the HTTP API if the settings name it, or else the program ``streamfleet``."""
        if hasattr(self.producer, "batch"):
            return self.producer
        if self.conf.streamfleet_url:
            from ._http import Http

            return Http(self.conf.streamfleet_url, self.conf.streamfleet_token, queue=self.producer.queue)
        env = {"STREAMFLEET__REDIS__URL": self.conf.broker_url} if self.conf.broker_url else {}
        return Cli(queue=self.producer.queue, env=env)

    def config_from_object(self, settings: Any, namespace: str = "") -> None:
        """Takes settings from a module or an object; with a namespace, those whose names begin with it."""
        source = importlib.import_module(settings) if isinstance(settings, str) else settings
        prefix = f"{namespace}_" if namespace else ""
        self.conf.update({name[len(prefix) :].lower(): getattr(source, name) for name in dir(source) if name.startswith(prefix) and not name.startswith("__")})

    def autodiscover_tasks(self, packages: Iterable[str] = (), related_name: str = "tasks") -> None:
        """Imports the modules with tasks of these packages."""
        for package in packages:
            importlib.import_module(f"{package}.{related_name}")

    def task(self, *args: Any, **options: Any) -> Any:
        """Makes a task of a function: ``@app.task``, or ``@app.task(bind=True, max_retries=5)``."""
        if len(args) == 1 and callable(args[0]):
            return Task(self, args[0], options)
        return lambda function: Task(self, function, options)

    def AsyncResult(self, id: str) -> "AsyncResult":  # noqa: A002, N802
        """The result of a task of this id, in the default queue."""
        return AsyncResult(id, self)


def shared_task(*args: Any, **options: Any) -> Any:
    """Makes a task of the application that was created last."""
    if len(args) == 1 and callable(args[0]):
        return Task(None, args[0], options)
    return lambda function: Task(None, function, options)


class _Request:
    def __init__(self, job: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.id, self.retries, self.headers = job.id, job.attempt - 1, job.headers
        self.args, self.kwargs, self.delivery_info = list(args), dict(kwargs), {"routing_key": job.queue}


class Task:
    """A task: a function that can also be called later."""

    def __init__(self, app: Optional[Celery], function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        unknown = sorted(set(options) - set(_KNOWN) - set(_IGNORED))
        if unknown:
            raise TypeError(f"streamfleet.celery has no option {unknown[0]!r} of a task: {'limits belong into [types] of the worker' if unknown[0] == 'rate_limit' else 'there are ' + ', '.join(_KNOWN)}")
        self._app, self.run, self.options = app, function, dict(options)
        self.name: str = options.get("name") or f"{function.__module__}.{function.__qualname__}"
        self.type = re.sub(r"[^a-z0-9._-]", "-", self.name.lower()).lstrip("._-")[:128]
        self.max_retries: Optional[int] = options.get("max_retries", MAX_RETRIES)
        self.request: Any = None
        self.__doc__, self.__name__, self.__module__ = function.__doc__, function.__name__, function.__module__
        declared: Any = {"tracking": "all", "max_attempts": 2**32 - 1 if self.max_retries is None else self.max_retries + 1}
        declared.update({name: options[key] for name, key in (("timeout", "time_limit"), ("queue", "queue")) if options.get(key) is not None})
        _worker.job(self.type, **declared)(self._handle)
        if app is not None:
            app.tasks[self.name] = self

    @property
    def app(self) -> Celery:
        """Its application."""
        app = self._app or Celery.current
        if app is None:
            raise RuntimeError(f"{self.name} belongs to no application: create one with streamfleet.celery.Celery first")
        return app

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(self, *args, **kwargs) if self.options.get("bind") else self.run(*args, **kwargs)

    def s(self, *args: Any, **kwargs: Any) -> "Signature":
        """A call that gets the result of the task before it as its first argument."""
        return Signature(self, args, kwargs)

    signature = subtask = s

    def si(self, *args: Any, **kwargs: Any) -> "Signature":
        """A call that gets no result of another."""
        return Signature(self, args, kwargs, immutable=True)

    def delay(self, *args: Any, **kwargs: Any) -> "AsyncResult":
        """Submits a call."""
        return self.apply_async(args, kwargs)

    def apply_async(self, args: Any = (), kwargs: Optional[Mapping[str, Any]] = None, **options: Any) -> "AsyncResult":
        """Submits a call with ``countdown``, ``eta``, ``expires``, ``queue``, ``priority``, ``task_id``, ``headers``, ``link`` or ``link_error``."""
        link = options.pop("link", None)
        call = Signature(self, tuple(args or ()), dict(kwargs or {}), options=options)
        return chain(call, *([link] if isinstance(link, Signature) else link or [])).apply_async()

    def apply(self, args: Any = (), kwargs: Optional[Mapping[str, Any]] = None, **_: Any) -> "AsyncResult":
        """Runs a call here and now, as often as its retries want it."""
        return self._eager({"args": list(args or ()), "kwargs": dict(kwargs or {})})

    def _eager(self, payload: Mapping[str, Any]) -> "AsyncResult":
        id_, attempt = uuid.uuid4().hex, 1
        while True:
            ended = run_inline(_worker.Job(self.type, payload, id=id_, attempt=attempt, max_attempts=(self.max_retries or 0) + 1))
            if not isinstance(ended.outcome, Retry) or attempt > (self.max_retries or 0):
                break
            attempt += 1
        result = AsyncResult(id_, self.app)
        value = ended.outcome.result if isinstance(ended.outcome, Done) else None
        result._known = Status(id_, "done" if ended.error is None else "dead", self.type, error=ended.error, result=json.dumps(value))
        return result

    def retry(self, args: Any = None, kwargs: Any = None, exc: Optional[BaseException] = None, countdown: Optional[float] = None, max_retries: Optional[int] = None, **_: Any) -> Any:
        """Ends the attempt; another follows after ``countdown`` seconds. Without one, ``exc`` is raised."""
        if args is not None or kwargs is not None:
            raise NotImplementedError("streamfleet.celery: a retry has the arguments of the first attempt")
        most = self.max_retries if max_retries is None else max_retries
        if most is not None and self.request.retries >= most:
            raise exc or MaxRetriesExceededError(f"Can't retry {self.name}[{self.request.id}]: it has failed {self.request.retries + 1} times")
        delay = self.options.get("default_retry_delay", RETRY_DELAY) if countdown is None else countdown
        raise _Again(described(exc) if exc is not None else "the task asked for another attempt", delay) from exc

    def _handle(self, job: "_worker.Job[Any]") -> Any:
        args, kwargs, rest = self._call_of(job.payload)
        self.request = _Request(job, args, kwargs)
        try:
            value = self(*args, **kwargs)
        except _Again as again:
            raise Retry(again.args[0], delay=again.args[1]) from again.__cause__
        except Outcome:
            raise
        except Exception as error:
            raise self._failed(error) from error
        return {"value": value, REST: rest} if rest else value

    def _failed(self, error: Exception) -> Outcome:
        """Celery tries a task again only for exceptions that it names."""
        options, tries = self.options, self.request.retries
        if not isinstance(error, tuple(options.get("autoretry_for", ()))) or isinstance(error, tuple(options.get("dont_autoretry_for", ()))):
            return Fatal(described(error))
        most = options.get("retry_kwargs", {}).get("max_retries", self.max_retries)
        if most is not None and tries >= most:
            return Fatal(described(error))
        backoff = options.get("retry_backoff")
        delay = min(600, int(backoff) * 2**tries) if backoff else options.get("retry_kwargs", {}).get("countdown", options.get("default_retry_delay", RETRY_DELAY))
        return Retry(described(error), delay=delay)

    def _call_of(self, payload: Any) -> Tuple[List[Any], Dict[str, Any], List[Any]]:
        """The arguments of a call, and the calls that follow it."""
        if "state" in payload and "args" not in payload:
            if payload["state"] == "dead":
                return [payload["id"]], {}, []
            before = payload["result"] if isinstance(payload["result"], dict) and REST in payload["result"] else None
            if before is None:
                raise Fatal("the result of the task before has no call for this one: it has more than 64 KiB, or the job does not come from a chain")
            call, rest = before[REST][0], before[REST][1:]
            return [*([] if call["immutable"] else [before["value"]]), *call["args"]], call["kwargs"], rest
        args = list(payload["args"])
        if "chord" in payload:
            results = [AsyncResult(id, self.app, queue=payload["queue"]).get(timeout=60) for id in payload["chord"]]
            args = args if payload["immutable"] else [results, *args]
        return args, payload["kwargs"], payload.get("chain", [])


class Signature:
    """A task with its arguments."""

    def __init__(self, task: Task, args: Tuple[Any, ...], kwargs: Dict[str, Any], *, immutable: bool = False, options: Optional[Dict[str, Any]] = None) -> None:
        self.task, self.args, self.kwargs, self.immutable, self.options = task, args, kwargs, immutable, dict(options or {})

    def set(self, **options: Any) -> "Signature":
        """Sets options of ``apply_async``."""
        self.options.update(options)
        return self

    def __or__(self, other: Any) -> "chain":
        return chain(self, other)

    def delay(self, *args: Any, **kwargs: Any) -> "AsyncResult":
        """Submits it, with more arguments."""
        return self.task.apply_async((*args, *self.args), {**self.kwargs, **kwargs}, **self.options)

    def apply_async(self, **options: Any) -> "AsyncResult":
        """Submits it."""
        return self.task.apply_async(self.args, self.kwargs, **{**self.options, **options})

    __call__ = delay

    def _told(self) -> Dict[str, Any]:
        return {"args": list(self.args), "kwargs": self.kwargs, "immutable": self.immutable}

    def submission(self, **more: Any) -> Submission:
        """Its job."""
        conf, options = self.task.app.conf, {**self.options}
        payload = {**self._told(), **more.pop("payload", {})}
        link_error = options.pop("link_error", None)
        if link_error is not None:
            more["on_failure"] = link_error.task.type
        routed = (conf.task_routes or {}).get(self.task.name, {})
        given: Dict[str, Any] = {"queue": self.task.options.get("queue") or routed.get("queue"), "priority": self.task.options.get("priority")}
        expires = options.pop("expires", self.task.options.get("expires"))
        if expires is not None:
            given["expires_at"] = time.time() + expires if isinstance(expires, (int, float)) else expires
        names = {"countdown": "delay", "eta": "run_at", "task_id": "id", "queue": "queue", "priority": "priority", "headers": "headers", "time_limit": "timeout"}
        for name, value in options.items():
            if name not in names:
                raise TypeError(f"streamfleet.celery has no option {name!r} of apply_async; there are {', '.join(names)}, expires, link and link_error")
            given[names[name]] = value
        # Celery counts from 0 to 9, and 9 is the most urgent.
        given["priority"] = None if given["priority"] is None else max(1, min(10, int(given["priority"]) + 1))
        return Submission(self.task.type, payload, **{"id": uuid.uuid4().hex, **given, **more})


class chain:  # noqa: N801
    """Tasks that run one after the other, each with the result of the one before."""

    def __init__(self, *tasks: Any) -> None:
        flat: List[Any] = []
        for task in tasks[0] if len(tasks) == 1 and isinstance(tasks[0], (list, tuple)) else tasks:
            flat += task.tasks if isinstance(task, chain) else [task]
        for task in flat:
            if not isinstance(task, Signature):
                raise NotImplementedError("streamfleet.celery: a chain has signatures of tasks, such as add.s(1); a group or a chord cannot be part of it")
        self.tasks: List[Signature] = flat
        moved = [call.task.name for call in flat[1:] if call.options]
        if moved:
            raise NotImplementedError(f"streamfleet.celery: only the first task of a chain has options, and {moved[0]} has some")

    def __or__(self, other: Any) -> "chain":
        return chain(self, other)

    def apply_async(self, **options: Any) -> "AsyncResult":
        """Submits the first task, which the others follow. The result is that of the last."""
        first, *rest = self.tasks
        app = first.task.app
        if app.conf.task_always_eager:
            result = first.task._eager(first._told())
            for call in rest:
                result = call.task._eager({**call._told(), "args": [*([] if call.immutable else [result.get()]), *call.args]})
            return result
        first = Signature(first.task, first.args, first.kwargs, immutable=first.immutable, options={**first.options, **options})
        told = [call._told() for call in rest]
        submission = first.submission(payload={"chain": told} if told else {}, then=[{"type": call.task.type} for call in rest] or None)
        app.producer.send(submission)
        return AsyncResult(_id(submission), app, queue=submission.queue, follow=len(rest))

    delay = __call__ = apply_async


class group:  # noqa: N801
    """Tasks that run side by side."""

    def __init__(self, *tasks: Any) -> None:
        self.tasks: List[Signature] = list(tasks[0] if len(tasks) == 1 and not isinstance(tasks[0], Signature) else tasks)

    def __or__(self, other: Signature) -> "chord":
        return chord(self.tasks, other)

    def apply_async(self) -> "GroupResult":
        """Submits all of them."""
        return GroupResult([call.apply_async() for call in self.tasks])

    delay = __call__ = apply_async


class chord:  # noqa: N801
    """Tasks that run side by side, and one that gets the list of their results: the members of a batch, and what follows."""

    def __init__(self, header: Any, body: Optional[Signature] = None) -> None:
        self.tasks, self.body = group(*([header] if isinstance(header, Signature) else [list(getattr(header, "tasks", header))])).tasks, body

    def __call__(self, body: Optional[Signature] = None) -> "AsyncResult":
        body = body or self.body
        if body is None:
            raise TypeError("a chord needs a task that follows: chord(header)(body)")
        app, name = body.task.app, f"chord-{uuid.uuid4().hex}"
        if app.conf.task_always_eager:
            results = [call.task._eager(call._told()).get() for call in self.tasks]
            return body.task._eager({**body._told(), "args": [*([] if body.immutable else [results]), *body.args]})
        members = [call.submission(id=f"{name}.{number}") for number, call in enumerate(self.tasks)]
        queue = members[0].queue or app.producer.queue
        follow = body.submission(payload={"chord": [f"{name}.{number}" for number in range(len(members))], "queue": queue}, queue=queue)
        app.batches.batch(name, members, follow)
        return AsyncResult(_id(follow), app, queue=queue)

    apply_async = delay = __call__


class AsyncResult:
    """What becomes of a task."""

    def __init__(self, id: str, app: Optional[Celery] = None, *, queue: Optional[str] = None, follow: int = 0) -> None:  # noqa: A002
        self.id, self._app, self._queue, self._follow = id, app or Celery.current, queue, follow
        self._known: Optional[Status] = None

    def _status(self) -> Optional[Status]:
        """The status of the task, or, of a chain, of the last task that has been submitted."""
        assert self._app is not None, "create an application first"
        if self._known is not None:
            return self._known
        status: Optional[Status] = self._app.producer.status(self.id, queue=self._queue)
        while self._follow and status is not None and status.state == "done" and status.children:
            self.id, self._follow = status.children[0], self._follow - 1
            status = self._app.producer.status(self.id, queue=self._queue)
        return status

    @property
    def state(self) -> str:
        """Celery's name of the state."""
        status = self._status()
        return "PENDING" if status is None or self._follow and status.state == "done" else _STATES.get(status.state, "PENDING")

    status = state

    def ready(self) -> bool:
        """Whether it has ended."""
        return self.state in ("SUCCESS", "FAILURE", "REVOKED")

    def successful(self) -> bool:
        """Whether it has succeeded."""
        return self.state == "SUCCESS"

    def failed(self) -> bool:
        """Whether it has failed."""
        return self.state == "FAILURE"

    @property
    def result(self) -> Any:
        """The value, the exception of a task that failed, or None."""
        status = self._status()
        if status is None or not self.ready():
            return None
        return status.value() if status.state == "done" else _exception(status)

    def get(self, timeout: Optional[float] = None, propagate: bool = True, interval: float = 0.02, **_: Any) -> Any:
        """Waits for the end, and returns the value. An exception of the task is raised, unless ``propagate`` is false."""
        until = None if timeout is None else time.monotonic() + timeout
        while not self.ready():
            if until is not None and time.monotonic() > until:
                raise NotEnded(self.id, self.state)
            time.sleep(interval)
        result = self.result
        if propagate and isinstance(result, BaseException):
            raise result
        return result

    wait = get


class GroupResult:
    """What becomes of the tasks of a group."""

    def __init__(self, results: List[AsyncResult]) -> None:
        self.results = results

    def ready(self) -> bool:
        """Whether all have ended."""
        return all(result.ready() for result in self.results)

    def get(self, timeout: Optional[float] = None, **options: Any) -> List[Any]:
        """Waits for all, and returns their values in the order of the tasks."""
        until = None if timeout is None else time.monotonic() + timeout
        return [result.get(None if until is None else max(0, until - time.monotonic()), **options) for result in self.results]

    join = get


def _id(submission: Submission) -> str:
    return dict(submission.fields)[b"id"].decode()


def _exception(status: Status) -> BaseException:
    """The exception of a task, if this program has imported its class and it takes a text; otherwise :class:`TaskFailed`."""
    head = (status.error or f"the task is {status.state}").splitlines()[0]
    path, _, text = head.partition(": ")
    module, _, name = path.rpartition(".")
    class_ = getattr(sys.modules.get(module or "builtins"), name, None)
    if isinstance(class_, type) and issubclass(class_, Exception):
        try:
            return class_(text)
        except TypeError:
            pass
    return TaskFailed(status.error)
