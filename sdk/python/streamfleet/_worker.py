"""Runs handlers for a streamfleet worker, which gives jobs to this process over its standard input and output.

The protocol is one JSON object per line. Standard output belongs to it, so this module moves the descriptor away before
it runs anything: whatever else is printed, by this process or by a program that it starts, goes to standard error.
"""

import asyncio
import base64
import contextlib
import contextvars
import functools
import inspect
import json
import logging
import math
import os
import re
import select
import signal
import sys
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from types import FrameType
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Coroutine,
    Deque,
    Dict,
    Generic,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
    Type,
    Union,
    overload,
)

from ._describe import DESCRIBE, describe
from ._errors import Rule, Rules
from ._events import ENDINGS, Event, Listeners, end_of
from ._opening import Opening
from ._outcome import Cancelled, Done, Fatal, Limits, Outcome, Retry, Snooze, cut, described, leaves_of, severity
from ._producer import DECLARED, Submission, bytes_or, check_numbers, check_options, check_type
from ._trace import JOB, TRACESTATE, continued, tracestate
from ._version import VERSION

if TYPE_CHECKING:
    from typing_extensions import TypeVar, Unpack

    from ._cli import Accepted, AsyncCli, Cli
    from .codecs import Codecs
    from ._http import AsyncHttp, Http
    from ._producer import AsyncProducer, Options, Producer, Seconds

    #: The payload of a job, and what a handler returns: for an async one, a coroutine.
    P = TypeVar("P", default=Any)
    R = TypeVar("R", default=Any, covariant=True)
    F = TypeVar("F", bound="Callable[..., Any]")
    #: What an async handler returns when it is awaited.
    A = TypeVar("A")
else:
    from typing import TypeVar

    P, R, F, A = TypeVar("P"), TypeVar("R"), TypeVar("F"), TypeVar("A")

PROTOCOL = 1
SDK = f"streamfleet-python {VERSION}"
#: The worker reads JSON that is nested up to 127 levels deep, and the line around a result is one of them.
MAX_LEVELS = 120
#: The most jobs that wait in this program.
MAX_AHEAD = 1000
MAX_LOG_BYTES = 8192
READ_BYTES = 256 * 1024
#: For jobs that arrive while this process is stopping.
LATER_MS = 1000
#: Why the worker takes a job back that it believes has not begun. If it has, that is no reason to end it.
TAKEN_BACK = "withdrawn"

Function = Callable[..., Any]

_log = logging.getLogger("streamfleet")

#: How the line of a job begins.
_JOB_LINE = re.compile(rb'\{"type": ?"job", ?"ref": ?"([^"\\]{1,64})"')


#: What opens and closes arrays and objects, and texts, in which it does not.
_STRUCTURE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]')


class Job(Generic[P]):
    """The attempt that a handler runs. Tests create one with a type and a payload.

    ``Job[Mail]`` is a job whose payload is a ``Mail``, for type checkers: nothing checks a payload when it arrives.
    """

    def __init__(
        self,
        type: str,  # noqa: A002
        payload: P = None,  # type: ignore[assignment]
        *,
        id: str = "test",  # noqa: A002
        queue: str = "default",
        attempt: int = 1,
        max_attempts: Optional[int] = None,
        timeout: Optional[float] = None,
        created_ms: Optional[int] = None,
        headers: Optional[Mapping[str, str]] = None,
        encoding: str = "json",
        results: Optional[Mapping[str, Any]] = None,
        step: Optional[str] = None,
        fence: Optional[str] = None,
        traceparent: Optional[str] = None,
        message: Optional[Mapping[str, Any]] = None,
        channel: "Optional[_Channel]" = None,
    ) -> None:
        self.type = type
        #: The JSON or MessagePack value, or bytes if the payload is something else.
        self.payload = payload
        self.id = id
        self.queue = queue
        self.attempt = attempt
        self.max_attempts = max_attempts
        self.created_ms = created_ms
        self.headers = dict(headers or {})
        self.encoding = encoding
        #: The whole message of the worker, with fields that this version does not know.
        self.message = dict(message or {})
        self.step: Optional[str] = self.message.get("step") if step is None else step
        #: What the steps returned that this one names in ``after``, by their names: JSON values, or bytes. A step that
        #: returned nothing, or that a person decided to be done without naming a result, is missing.
        self.results: Dict[str, Any] = dict(results or {})
        #: Greater for every later attempt of the job.
        self.fence: Optional[str] = self.message.get("fence") if fence is None else fence
        #: Whether an earlier attempt failed or lost its worker.
        self.redelivered = bool(self.message.get("redelivered", False))
        #: The W3C trace context of the attempt. A producer that cannot set the field may have sent it as a header.
        self.traceparent: Optional[str] = traceparent or self.message.get("traceparent") or self.headers.get("traceparent")
        self.tracestate: Optional[str] = tracestate(self.headers.get(TRACESTATE))
        self.ref: Optional[str] = self.message.get("ref")
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._channel = channel
        self._reason: Optional[str] = None
        #: Whether a handler runs that may be cancelled.
        self._is_running = False

    @property
    def created(self) -> Optional[datetime]:
        """When the job was accepted, by the clock of Redis."""
        if self.created_ms is None:
            return None
        return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=self.created_ms)

    @property
    def remaining(self) -> Optional[float]:
        """How many seconds are left of the attempt's timeout."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    @property
    def cancelled(self) -> Optional[str]:
        """Why the attempt should end: ``cancelled``, ``timeout``, ``shutdown`` or ``lost``; None if it should not."""
        if self._reason is None and self._channel is not None:
            self._channel.look()
        return self._reason

    def progress(self, percent: Optional[float] = None, message: Optional[str] = None) -> None:
        """Reports progress: 0 to 100, and a short text, both of which ``streamfleet status`` shows."""
        fields: Dict[str, Any] = {"type": "progress", "ref": self.ref}
        if percent is not None:
            if isinstance(percent, str) or not hasattr(percent, "__float__"):
                raise TypeError(f"the progress must be a number from 0 to 100, not {percent!r}")
            if not math.isfinite(percent):
                raise ValueError(f"the progress must be finite, not {percent}")
            fields["percent"] = min(100.0, max(0.0, float(percent)))
        if message is not None:
            fields["message"] = cut(str(message), MAX_LOG_BYTES)
        if self._channel is not None:
            self._channel.send(fields)

    def log(self, message: str, level: str = "info", **fields: Any) -> None:
        """Logs a line that the job's record keeps. ``level`` is debug, info, warn or error."""
        if level not in ("debug", "info", "warn", "error"):
            raise ValueError(f"level must be debug, info, warn or error, not {level!r}")
        if self._channel is not None:
            self._channel.send(_log_line(self.ref, level, message, fields))


def _log_line(ref: Optional[str], level: str, message: str, fields: Mapping[str, Any]) -> Dict[str, Any]:
    line: Dict[str, Any] = {"type": "log", "level": level, "message": cut(message, MAX_LOG_BYTES)}
    if ref is not None:
        line["ref"] = ref
    if fields:
        line["fields"] = {str(name): _plain(value) for name, value in fields.items()}
    return line


def _check_depth(text: str) -> None:
    """Refuses JSON that is nested too deep for the worker."""
    if text.count("[") + text.count("{") <= MAX_LEVELS:
        return
    levels = 0
    for found in _STRUCTURE.finditer(text):
        if found[0] in "[{":
            levels += 1
            if levels > MAX_LEVELS:
                raise ValueError(f"it is nested more than {MAX_LEVELS} levels deep")
        elif found[0] in "]}":
            levels -= 1


def _plain(value: Any) -> Any:
    try:
        json.dumps(value, allow_nan=False)
        return value
    except (TypeError, ValueError, RecursionError):
        return str(value)


def current_job() -> "Optional[Job[Any]]":
    """Returns the job that this code runs for, if it runs in a handler."""
    return JOB.get()


#: What a log record has anyway; everything else was given as ``extra``.
_RECORD_NAMES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class LogHandler(logging.Handler):
    """Sends log records to the worker, with ``extra`` as fields. :func:`run` installs one if there is no other handler."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            channel = _Channel.active
            if channel is None:
                return
            job_ = JOB.get()
            number = record.levelno
            level = "debug" if number < 20 else "info" if number < 30 else "warn" if number < 40 else "error"
            fields = {name: value for name, value in vars(record).items() if name not in _RECORD_NAMES}
            fields.setdefault("logger", record.name)
            channel.send(_log_line(job_.ref if job_ else None, level, self.format(record), fields))
        except Exception:
            self.handleError(record)


def _encoded(message: Mapping[str, Any]) -> bytes:
    text = json.dumps(message, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


class _Channel:
    """The two pipes. It alone reads and writes them."""

    active: "Optional[_Channel]" = None

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.read_fd = read_fd
        self._write_fd = write_fd
        #: A process that a handler forks shares the pipes, and must neither write nor read them.
        self.pid = os.getpid()
        self._lock = threading.Lock()
        #: Whether the main thread is in the middle of a line, which a signal must not cut short.
        self.writing = False
        #: Called after such a line, if a signal came meanwhile.
        self.after_line: Optional[Callable[[], None]] = None
        self._buffer = bytearray()
        self._scanned = 0
        self.ended = False
        #: Called by a job that asks whether it is cancelled.
        self.look: Callable[[], None] = lambda: None

    @classmethod
    def claim(cls) -> "_Channel":
        """Takes standard input and output from everything else in this process and in programs that it starts.

        The copies are not inherited by other programs. Calling it again returns the same channel.
        """
        if cls.active is None:
            cls.active = cls(os.dup(0), os.dup(1))
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            os.close(null)
            os.dup2(2, 1)
            # What was printed and not yet flushed goes to standard error, and so does everything from now on.
            sys.stdout = sys.stderr
            # A program that a handler starts is not started by the worker.
            for name in ("STREAMFLEET_POOL", "STREAMFLEET_PROTOCOL"):
                os.environ.pop(name, None)
        return cls.active

    def send(self, message: Mapping[str, Any]) -> None:
        """Writes one line, from any thread."""
        line = _encoded(message)
        if len(line) > Limits.line and "fields" in message:
            line = _encoded({**message, "fields": {"left_out": f"{len(line)} bytes"}})
        self.write(line + b"\n")

    def write(self, line: bytes) -> None:
        if os.getpid() != self.pid:
            return
        is_main = threading.current_thread() is threading.main_thread()
        if is_main:
            self.writing = True
        try:
            with self._lock:
                view = memoryview(line)
                while view:
                    view = view[os.write(self._write_fd, view) :]
        finally:
            if is_main:
                self.writing = False
        if is_main and self.after_line is not None:
            after, self.after_line = self.after_line, None
            after()

    def close(self) -> None:
        """Says that this process ends itself: what it has not answered was not started."""
        try:
            self.send({"type": "bye"})
            os.close(self._write_fd)
        except OSError:
            pass

    def abandon(self) -> None:
        """Says nothing more: the worker sees the end of the output, and whatever this process still writes goes nowhere."""
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._write_fd, inheritable=False)
        os.close(null)

    def is_readable(self) -> bool:
        return not self.ended and bool(select.select([self.read_fd], [], [], 0)[0])

    def fill(self) -> bool:
        """Reads what there is; it waits if there is nothing. Returns whether there may be more."""
        data = os.read(self.read_fd, READ_BYTES)
        if data:
            self._buffer += data
        else:
            self.ended = True
        return len(data) == READ_BYTES

    def messages(self) -> Iterator[Union[bytes, Dict[str, Any]]]:
        """Takes what was read completely: a job as the line that it came in, and everything else decoded.

        A job is not decoded before it begins: if that fails, or takes all the memory, the job before it is not to blame.
        Without its end, a line was cut off with the worker, and is dropped.
        """
        while True:
            end = self._buffer.find(b"\n", self._scanned)
            if end < 0:
                self._scanned = len(self._buffer)
                return
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._scanned = 0
            if _JOB_LINE.match(line):
                yield line
            elif line.strip():
                message = _message(line)
                if isinstance(message, dict):
                    yield message


def _message(line: bytes) -> Any:
    """Decodes a line. Of a job whose payload Python cannot read, there are only the ref and ``unreadable``: other jobs go on."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        begin = _JOB_LINE.match(line)
        if begin is None:
            raise
        return {"type": "job", "ref": begin[1].decode("utf-8", "replace"), "unreadable": str(error)}


def _decoded(waiting: Union[bytes, Dict[str, Any]]) -> Dict[str, Any]:
    """Decodes a job that begins."""
    message = _message(waiting) if isinstance(waiting, bytes) else waiting
    return message if isinstance(message, dict) else {}


def _ref(waiting: Union[bytes, Mapping[str, Any]]) -> Optional[str]:
    """The name of a job that waits."""
    if isinstance(waiting, bytes):
        begin = _JOB_LINE.match(waiting)
        return None if begin is None else begin[1].decode("utf-8", "replace")
    ref = waiting.get("ref")
    return None if ref is None else str(ref)


class Handler(Generic[P, R]):
    """A handler with its type: still callable, and able to submit jobs for itself."""

    def __init__(self, type: str, function: "Callable[[Job[P]], R]", defaults: "Options") -> None:  # noqa: A002
        self.type = type
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)
        )
        self.defaults = defaults
        functools.update_wrapper(self, function)

    def __call__(self, job: "Job[P]") -> R:
        return self.function(job)

    @overload
    def enqueue(self, payload: P, *, producer: "Producer", **options: "Unpack[Options]") -> str: ...
    @overload
    def enqueue(self, payload: P, *, producer: "AsyncProducer", **options: "Unpack[Options]") -> Coroutine[Any, Any, str]: ...
    @overload
    def enqueue(self, payload: P, *, producer: "Union[Cli, Http]", **options: "Unpack[Options]") -> "Accepted": ...
    @overload
    def enqueue(self, payload: P, *, producer: "Union[AsyncCli, AsyncHttp]", **options: "Unpack[Options]") -> "Coroutine[Any, Any, Accepted]": ...
    @overload
    def enqueue(self, payload: P, *, producer: Any = None, **options: "Unpack[Options]") -> Any: ...
    @overload
    def enqueue(self: "Handler[None, R]", *, producer: Any = None, **options: "Unpack[Options]") -> Any: ...

    def enqueue(self, payload: Any = None, *, producer: Any = None, **options: "Unpack[Options]") -> Any:
        """Submits a job of this type with the producer, or with that of :func:`use`, and returns what that returns.

        With an asynchronous producer, await it. Type checkers know what it returns if it gets the producer. The options of
        the decorator are the defaults of these.
        """
        return _used(producer).enqueue(self.type, payload, **{**self.defaults, **options})

    @overload
    def submission(self, payload: P, **options: "Unpack[Options]") -> Submission: ...
    @overload
    def submission(self: "Handler[None, R]", **options: "Unpack[Options]") -> Submission: ...

    def submission(self, payload: Any = None, **options: "Unpack[Options]") -> Submission:
        """A job of this type with the defaults of the decorator, for ``enqueue_many``, ``batch`` and ``send``."""
        all_options: Any = {**self.defaults, **options}
        return Submission(self.type, payload, **all_options)

    @overload
    def wait(
        self: "Handler[P, Coroutine[Any, Any, A]]", id: str, timeout: "Optional[Seconds]" = None, *, producer: "Union[Producer, Http]", queue: Optional[str] = None  # noqa: A002
    ) -> A: ...
    @overload
    def wait(
        self: "Handler[P, Coroutine[Any, Any, A]]", id: str, timeout: "Optional[Seconds]" = None, *, producer: "Union[AsyncProducer, AsyncHttp]", queue: Optional[str] = None  # noqa: A002
    ) -> Coroutine[Any, Any, A]: ...
    @overload
    def wait(self, id: str, timeout: "Optional[Seconds]" = None, *, producer: "Union[Producer, Http]", queue: Optional[str] = None) -> R: ...  # noqa: A002
    @overload
    def wait(
        self, id: str, timeout: "Optional[Seconds]" = None, *, producer: "Union[AsyncProducer, AsyncHttp]", queue: Optional[str] = None  # noqa: A002
    ) -> Coroutine[Any, Any, R]: ...
    @overload
    def wait(self, id: str, timeout: "Optional[Seconds]" = None, *, producer: Any = None, queue: Optional[str] = None) -> Any: ...  # noqa: A002

    def wait(self, id: str, timeout: "Optional[Seconds]" = None, *, producer: Any = None, queue: Optional[str] = None) -> Any:  # noqa: A002
        """Waits for a job of this type with the producer, or with that of :func:`use`, and returns what its handler returned.

        With an asynchronous producer, await it. Type checkers know the type of the result if it gets the producer.

        :raises JobFailed: the job is dead or cancelled. Otherwise as :meth:`Producer.wait`.
        """
        waiting = _used(producer).wait(id, timeout, queue=queue or self.defaults.get("queue"))
        return _value_of(waiting) if inspect.isawaitable(waiting) else waiting.value()


async def _value_of(waiting: Any) -> Any:
    return (await waiting).value()


_producer: Any = None


def _used(producer: Any) -> Any:
    producer = producer or _producer
    if producer is None:
        raise RuntimeError("no producer: call streamfleet.use(Producer(client)) first, or give a producer")
    return producer


def use(producer: Any) -> None:
    """Sets the producer of ``handler.enqueue(…)``."""
    global _producer
    _producer = producer


class Worker:
    """Handlers and middleware. Most programs need only the functions of the module, which belong to one worker."""

    def __init__(self, declared: "Optional[Dict[str, Options]]" = None) -> None:
        self.handlers: Dict[str, Handler[Any, Any]] = {}
        #: The options that the decorators have, by type.
        self.declared: "Dict[str, Options]" = {} if declared is None else declared
        self.middleware_: List[Function] = []
        self.rules = Rules()
        self.listeners = Listeners()
        self.opening = Opening()

    def use_codecs(self, codecs: "Codecs") -> None:
        """Decodes payloads before handlers, middleware and listeners see them: see docs/codecs.md."""
        self.opening.codecs = codecs

    def job(
        self,
        type: str,  # noqa: A002
        **defaults: "Unpack[Options]",
    ) -> "Callable[[Callable[[Job[P]], R]], Handler[P, R]]":
        """Registers a handler for a type.

        The options hold for each job of the type that this program submits with this package, in whatever way, unless the
        job has others. For jobs from elsewhere, ``python -m streamfleet config MODULE`` prints what belongs into the
        configuration of the worker.
        """
        if callable(type):
            raise TypeError('write @job("mail.send"), with the type of the jobs')
        check_type(type)
        check_options(defaults)

        def register(function: "Callable[[Job[P]], R]") -> "Handler[P, R]":
            if type in self.handlers:
                raise ValueError(f"{type} has two handlers")
            self.handlers[type] = handler = Handler(type, function, defaults)
            self.declared[type] = defaults
            return handler

        return register

    def middleware(self, function: F) -> F:
        """Registers ``function(job, call_next)``; the first that was registered is the outermost."""
        self.middleware_.append(function)
        return function

    def errors(self, rules: Mapping[Type[BaseException], Rule]) -> None:
        """Says what follows exceptions of these classes and of their subclasses, if a handler raises them.

        ``"fatal"``: a dead letter at once. ``"retry"``: another attempt by the type's policy, whatever the configuration of
        the worker says. ``"unknown"``: the same as :class:`Unknown`. ``"drop"``: the job is no longer wanted, but a ``once``
        step fails. A number of seconds: another attempt, no sooner than that. The nearest class decides. The configuration decides about exceptions
        without a rule.
        """
        self.rules.add(rules)

    def on(self, event: Event) -> Callable[[F], F]:
        """Registers a listener: ``before(job)``, and ``after``, ``retry`` or ``failed``, which get the job and its outcome.

        ``before``: an attempt begins. ``after``: it has ended without a failure. ``retry``: it has failed, and the job runs
        again. ``failed``: it has failed, and the job is dead, unless the configuration of the worker decides otherwise. The
        ``__cause__`` of the outcome is the exception. What a listener raises is reported on standard error, and changes
        nothing. With async handlers, listeners may be async, too.
        """

        listeners = self.listeners.of(event)

        def register(listener: F) -> F:
            listeners.append(listener)
            return listener

        return register

    def run(self, *, inflight: Optional[int] = None, max_jobs: Optional[int] = None, log: bool = True) -> None:
        """Takes jobs until the worker wants no more, and then returns. Call it last, from the main thread.

        :param inflight: the most asyncio jobs at once, if that is fewer than the pool allows; always 1 without async handlers.
        :param max_jobs: ends the process after this many jobs; the worker starts another.
        :param log: sends log records to the worker, unless logging has been set up.
        """
        if not self.handlers:
            raise RuntimeError("no handler is registered")
        if os.environ.get(DESCRIBE) == "1":
            describe(self.declared)
            return
        if inflight is not None and inflight < 1 or max_jobs is not None and max_jobs < 1:
            raise ValueError("inflight and max_jobs must be at least 1")
        if _Channel.active is None and os.isatty(0):
            sys.exit("This program takes jobs from a streamfleet worker: name it as the command of a pool.")
        kinds = {handler.is_async for handler in self.handlers.values()}
        is_async = True in kinds
        for function in self.middleware_:
            if inspect.iscoroutinefunction(function) != is_async:
                kind = "async def, since a handler is" if is_async else "no async def, since no handler is"
                raise TypeError(f"the middleware {getattr(function, '__name__', function)} must be {kind}")
        listener = None if is_async else self.listeners.first_async()
        if listener is not None:
            raise TypeError(f"the listener {getattr(listener, '__name__', listener)} must be no async def, since no handler is")
        channel = _Channel.claim()
        if log and not logging.getLogger().handlers:
            logging.getLogger().addHandler(LogHandler())
            logging.getLogger().setLevel(logging.INFO)
        # Python forgets a signal that a child gets before it has come to itself, so the signal waits until then.
        os.register_at_fork(
            before=lambda: _mask(signal.SIG_BLOCK),
            after_in_parent=lambda: _mask(signal.SIG_UNBLOCK),
            after_in_child=_forget_signals,
        )
        loop = _AsyncLoop if is_async else _SyncLoop
        try:
            loop(self, channel, inflight, max_jobs).run()
        except BrokenPipeError:
            # The worker is gone, and it takes its programs with it.
            sys.exit(1)


def _forget_signals() -> None:
    """SIGTERM ends a child that a handler forks, and does not stop its parent, with which it shares descriptors."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _mask(signal.SIG_UNBLOCK)


def _mask(how: int) -> None:
    signal.pthread_sigmask(how, [signal.SIGTERM])


def surrounded(innermost: Callable[[Job[Any]], Any], middleware: Sequence[Function]) -> Callable[[Job[Any]], Any]:
    """What calls the first middleware, which calls the next, and so on to the handler."""
    call = innermost
    for function in reversed(middleware):
        call = functools.partial(lambda job_, outer, inner: outer(job_, inner), outer=function, inner=call)
    return call


class _Loop:
    """What both kinds of loop share: the handshake, and how a message becomes a job."""

    def __init__(self, worker: Worker, channel: _Channel, inflight: Optional[int], max_jobs: Optional[int]) -> None:
        self.worker = worker
        self.channel = channel
        self.inflight = inflight
        self.max_jobs = max_jobs
        self.started = 0
        self.stopping = False
        self.pid = os.getpid()
        #: The jobs that have not begun.
        self.waiting: "Deque[Union[bytes, Dict[str, Any]]]" = deque()

    def wanted(self, offered: int) -> int:
        raise NotImplementedError

    def greet(self, hello: Mapping[str, Any]) -> None:
        Limits.set(hello.get("max_line"))
        self.channel.send(
            {
                "type": "ready",
                "protocol": PROTOCOL,
                "types": sorted(self.worker.handlers),
                "inflight": self.wanted(int(hello.get("inflight", 1))),
                "ahead": max(0, min(MAX_AHEAD, int(hello.get("ahead", 0)))),
                "sdk": SDK,
            }
        )
        if hello.get("protocol") != PROTOCOL:
            sys.exit(f"the worker speaks protocol {hello.get('protocol')}, this program {PROTOCOL}")

    def job_of(self, message: Mapping[str, Any]) -> Job[Any]:
        payload = message.get("payload")
        if "payload_base64" in message:
            payload = base64.b64decode(message["payload_base64"])
        timeout_ms = message.get("timeout_ms")
        return Job(
            str(message.get("job_type", "")),
            payload,
            id=str(message.get("id", "")),
            queue=str(message.get("queue", "")),
            attempt=int(message.get("attempt", 1)),
            max_attempts=message.get("max_attempts"),
            timeout=None if timeout_ms is None else timeout_ms / 1000,
            created_ms=message.get("created_ms"),
            headers=message.get("headers"),
            encoding=str(message.get("encoding", "json")),
            results={step: bytes_or(result) for step, result in (message.get("results") or {}).items()},
            message=message,
            channel=self.channel,
        )

    def is_over(self) -> bool:
        return self.stopping or (self.max_jobs is not None and self.started >= self.max_jobs)

    def postpone(self, ref: Optional[str], reason: str = "the program is stopping") -> None:
        """Gives a job back that has not begun."""
        later = Snooze(LATER_MS / 1000, reason)
        self.channel.send({"type": "result", "ref": ref, **later._fields(), "begun": False})

    def withdraw(self, ref: Optional[str], reason: str) -> None:
        """Gives a job back that was cancelled before it began."""
        for job_ in self.waiting:
            if ref is not None and _ref(job_) == ref:
                self.waiting.remove(job_)
                self.postpone(ref, f"cancelled before it began: {reason}")
                return

    def refuse(self, message: Mapping[str, Any]) -> None:
        never = Fatal(f"Python cannot read the payload: {message['unreadable']}")
        self.channel.send({"type": "result", "ref": message["ref"], **never._fields()})

    def unknown(self, job_: Job[Any]) -> Retry:
        return Retry(f"this program has no handler for {job_.type}; it serves {', '.join(sorted(self.worker.handlers))}")

    def answer_of(self, job_: Job[Any], returned: Any) -> Tuple[Outcome, bytes]:
        """Returns how the attempt ended, and the line that says so."""
        if os.getpid() != self.pid:
            # A child that the handler forked has come back; the job is not its own.
            os._exit(0)
        outcome = returned if isinstance(returned, Outcome) else Done(returned)
        try:
            text = json.dumps(
                {"type": "result", "ref": job_.ref, **outcome._fields()},
                allow_nan=False,
                ensure_ascii=False,
                separators=(",", ":"),
            )
            check_numbers(text)
            _check_depth(text)
            line = text.encode("utf-8", "strict" if isinstance(outcome, Done) else "replace")
            if len(line) > Limits.line:
                raise ValueError(f"its line has {len(line)} bytes, and the pool's max_line is {Limits.line}")
        except Exception as error:
            # Another attempt would do the work again, and return the same.
            return self.answer_of(job_, Fatal(f"the handler's result cannot be sent: {error}"))
        return outcome, line + b"\n"

    def answer(self, line: bytes) -> None:
        """Ends the attempt. What it and its listeners printed belongs to it, and not to the next one."""
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            with contextlib.suppress(Exception):
                # An embedded interpreter may have none.
                if stream is not None:
                    stream.flush()
        self.channel.write(line)

    def outcome_of(self, error: BaseException, job_: Job[Any]) -> Outcome:
        if isinstance(error, (Cancelled, asyncio.CancelledError)) and job_._reason is not None:
            return Retry(f"the attempt was interrupted: {job_._reason}")
        leaves = leaves_of(error)
        outcomes = [self._outcome_of_leaf(leaf, leaves, job_) for leaf in leaves]
        outcome = max(outcomes, key=severity)
        if isinstance(outcome, Retry) and len({type(leaf) for leaf in leaves}) > 1:
            # A rule for one of them says nothing about the others.
            outcome._classes = ()
        return outcome

    def _outcome_of_leaf(self, error: BaseException, leaves: Sequence[BaseException], job_: Job[Any]) -> Outcome:
        if isinstance(error, Outcome):
            return error
        text = described(error, [leaf for leaf in leaves if leaf is not error])
        if isinstance(error, SystemExit):
            text = f"the handler called sys.exit({error.code!r})\n{text}"
        # What is raised because of an interruption says nothing about the job.
        rules = self.worker.rules
        outcome = Retry(text) if job_._reason is not None else rules.outcome(error, text, is_once=self._is_once(job_))
        outcome.__cause__ = error
        return outcome

    @staticmethod
    def _is_once(job_: Job[Any]) -> bool:
        return job_.message.get("step_kind") == "once"

    @classmethod
    def end_of(cls, job_: Job[Any], outcome: Outcome) -> str:
        if job_.step is None:
            is_last = job_.max_attempts is not None and job_.attempt >= job_.max_attempts
        else:
            # An ``auto`` step has a limit of its own, which the worker does not tell. A ``once`` step is never retried.
            is_last = cls._is_once(job_)
        return end_of(outcome, is_last=is_last, interrupted=job_._reason)


class _SyncLoop(_Loop):
    """One job after the other, in the main thread."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.job: Optional[Job[Any]] = None
        self._is_looking = False
        self._is_interruptible = False
        self._wake_read, self._wake_write = os.pipe()

    def wanted(self, offered: int) -> int:
        return 1

    def run(self) -> None:
        self.channel.look = self.look
        signal.signal(signal.SIGTERM, self._on_term)
        call = self._chain()
        while not self.is_over():
            if self.waiting:
                # A job that was cancelled while it waited must not begin.
                self.look()
            while not self.waiting and not self.channel.ended and not self.stopping:
                readable, _, _ = select.select([self.channel.read_fd, self._wake_read], [], [])
                if self.channel.read_fd in readable:
                    self._read()
            if self.stopping or not self.waiting:
                break
            message = _decoded(self.waiting.popleft())
            if "unreadable" in message:
                self.refuse(message)
            elif message:
                self._run_job(self.job_of(message), call)
        self._leave()

    def _chain(self) -> Callable[[Job[Any]], Any]:
        def innermost(job_: Job[Any]) -> Any:
            handler = self.worker.handlers.get(job_.type)
            return self.unknown(job_) if handler is None else handler.function(job_)

        return surrounded(innermost, self.worker.middleware_)

    def _run_job(self, job_: Job[Any], call: Callable[[Job[Any]], Any]) -> None:
        self.started += 1
        token = JOB.set(job_)
        self.job = job_
        try:
            if self.worker.opening.concerns(job_):
                self._interruptibly(job_, self.worker.opening.open)
            self.worker.listeners.tell("before", job_)
            returned = self._interruptibly(job_, call)
        except ENDINGS as error:
            returned = self.outcome_of(error, job_)
        self.job = None
        outcome, line = self.answer_of(job_, returned)
        try:
            self.worker.listeners.tell(self.end_of(job_, outcome), job_, outcome)
        finally:
            self.answer(line)
        # An exception has this frame, which would have the exception, and both the payload, until the garbage is collected.
        del returned, outcome
        JOB.reset(token)

    def _interruptibly(self, job_: Job[Any], call: Callable[[Job[Any]], Any]) -> Any:
        """Calls the handler; only in here does a signal raise Cancelled, so the caller sees it in any case."""
        try:
            with continued(job_):
                self._is_interruptible = True
                return call(job_)
        finally:
            self._is_interruptible = False

    def _read(self) -> bool:
        is_more = self.channel.fill()
        for message in self.channel.messages():
            if isinstance(message, bytes) or message.get("type") == "job":
                self.waiting.append(message)
            elif message.get("type") == "hello":
                self.greet(message)
            elif message.get("type") == "cancel":
                self._cancel(_ref(message), str(message.get("reason", "cancelled")))
        return is_more

    def _cancel(self, ref: Optional[str], reason: str) -> None:
        if self.job is not None and ref == self.job.ref:
            if reason != TAKEN_BACK:
                self.job._reason = reason
        else:
            self.withdraw(ref, reason)

    def look(self) -> None:
        """Reads what the worker has written meanwhile, without waiting. A thread of the handler must not."""
        if self._is_looking or threading.current_thread() is not threading.main_thread() or os.getpid() != self.pid:
            return
        self._is_looking = True
        try:
            while self.channel.is_readable() and self._read():
                pass
        finally:
            self._is_looking = False

    def _on_term(self, number: int, frame: Optional[FrameType]) -> None:
        self.stopping = True
        os.write(self._wake_write, b"t")
        if self.channel.writing:
            self.channel.after_line = self._interrupt
        else:
            self._interrupt()

    def _interrupt(self) -> None:
        if not self._is_interruptible:
            return
        # The worker sends a cancel line before the signal if it is about this job, and none if it only stops.
        self.look()
        if self.job is not None and self.job._reason is not None:
            self._is_interruptible = False
            raise Cancelled(self.job._reason)

    def _leave(self) -> None:
        self.look()
        # Otherwise, another program gets at once what this one has not begun.
        for message in self.waiting if self.stopping else ():
            self.postpone(_ref(message))
        self.channel.close()


class _AsyncLoop(_Loop):
    """Many jobs at once on asyncio; handlers that are not coroutines run one at a time in a thread."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.tasks: "Dict[str, Tuple[Job[Any], asyncio.Task[None]]]" = {}
        #: The most tasks at once.
        self.most = 1
        self.thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="streamfleet")
        self.error: Optional[BaseException] = None
        #: The tasks of jobs that were answered before their listeners ended. asyncio itself keeps no task alive.
        self.telling: "Set[asyncio.Task[None]]" = set()
        #: The answers that are fixed, while listeners are told.
        self.fixed: Dict[Optional[str], bytes] = {}
        #: Done once no job may begin or be answered any more. asyncio cancels it if the program ends because of one of its tasks,
        #: such as by SystemExit, or because of a signal: before any other task learns that it is cancelled.
        self.over: "asyncio.Future[None]"

    def wanted(self, offered: int) -> int:
        self.most = max(1, min(offered, self.inflight or offered))
        return self.most

    def run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        loop = asyncio.get_running_loop()
        self.over = loop.create_future()
        self.call = self._chain()
        loop.add_signal_handler(signal.SIGTERM, self._stop)
        loop.add_reader(self.channel.read_fd, self._on_readable)
        try:
            await self.over
            if self.error is not None:
                raise self.error
        except BaseException:
            # asyncio cancels all tasks now. Nobody knows how far their jobs came, so they have no answer, unless it is fixed.
            while self.fixed:
                self.answer(self.fixed.popitem()[1])
            self.channel.abandon()
            raise
        finally:
            loop.remove_reader(self.channel.read_fd)
        while self.channel.is_readable():
            self.channel.fill()
            for message in self.channel.messages():
                if isinstance(message, bytes) or message.get("type") == "job":
                    self.waiting.append(message)
        # Otherwise, another program gets at once what this one has not begun.
        for job_ in self.waiting if self.stopping else ():
            self.postpone(_ref(job_))
        self.channel.close()
        self.thread.shutdown(wait=False)

    def _chain(self) -> Callable[[Job[Any]], Any]:
        async def innermost(job_: Job[Any]) -> Any:
            handler = self.worker.handlers.get(job_.type)
            if handler is None:
                return self.unknown(job_)
            if handler.is_async:
                return await handler.function(job_)
            run = functools.partial(contextvars.copy_context().run, self._in_thread, handler.function, job_)
            return await asyncio.get_running_loop().run_in_executor(self.thread, run)

        return surrounded(innermost, self.worker.middleware_)

    @staticmethod
    def _in_thread(function: Function, job_: Job[Any]) -> Any:
        if job_._reason is not None:
            raise Cancelled(job_._reason)
        return function(job_)

    def _stop(self) -> None:
        self.stopping = True
        self._check()

    def _check(self) -> None:
        is_done = self.is_over() or self.channel.ended and not self.waiting
        if (self.error is not None or is_done and not self.tasks) and not self.over.done():
            self.over.set_result(None)

    def _on_readable(self) -> None:
        try:
            self.channel.fill()
            for message in self.channel.messages():
                self._take(message)
                self._begin()
        except BaseException as error:
            self.error = error
        if self.channel.ended:
            asyncio.get_running_loop().remove_reader(self.channel.read_fd)
        self._check()

    def _take(self, message: Union[bytes, Dict[str, Any]]) -> None:
        if isinstance(message, bytes) or message.get("type") == "job":
            # While the last jobs end, the worker must not wait for this one.
            if self.is_over() and self.tasks:
                self.postpone(_ref(message))
            else:
                self.waiting.append(message)
        elif message.get("type") == "hello":
            self.greet(message)
        elif message.get("type") == "cancel":
            self._cancel(_ref(message), str(message.get("reason", "cancelled")))

    def _cancel(self, ref: Optional[str], reason: str) -> None:
        job_, task = self.tasks.get(str(ref), (None, None))
        if job_ is None or task is None:
            self.withdraw(ref, reason)
        elif job_._reason is None and reason != TAKEN_BACK:
            job_._reason = reason
            line = self.fixed.pop(job_.ref, None)
            if line is not None:
                self.answer(line)
                # The worker gives its place to another job now, and its listeners may never end.
                del self.tasks[str(ref)]
                self.telling.add(task)
                task.add_done_callback(self.telling.discard)
                return
            handler = self.worker.handlers.get(job_.type)
            # A thread cannot be interrupted. It may ask, and if it goes on, the attempt goes on. A task that was
            # cancelled before its first step would never answer. Listeners are not cancelled.
            if handler is not None and handler.is_async and job_._is_running:
                task.cancel()

    def _begin(self) -> None:
        """Begins as many of the jobs that wait as may run at once."""
        while self.waiting and len(self.tasks) < self.most and not self.is_over() and not self.over.done():
            message = _decoded(self.waiting.popleft())
            if "unreadable" in message:
                self.refuse(message)
            elif message:
                self.started += 1
                job_ = self.job_of(message)
                task = asyncio.get_running_loop().create_task(self._run_job(job_))
                self.tasks[str(job_.ref)] = (job_, task)

    async def _run_job(self, job_: Job[Any]) -> None:
        JOB.set(job_)
        listeners = self.worker.listeners
        try:
            try:
                if self.worker.opening.concerns(job_):
                    # A store takes time, so other jobs go on meanwhile.
                    await asyncio.to_thread(self.worker.opening.open, job_)
                await listeners.tell_async("before", job_)
                job_._is_running = True
                if job_._reason is not None:
                    raise Cancelled(job_._reason)
                with continued(job_):
                    returned = await self.call(job_)
            except ENDINGS as error:
                returned = self.outcome_of(error, job_)
            job_._is_running = False
            if self.over.done():
                return
            outcome, line = self.answer_of(job_, returned)
            self.fixed[job_.ref] = line
            try:
                await listeners.tell_async(self.end_of(job_, outcome), job_, outcome)
            finally:
                if self.fixed.pop(job_.ref, None) is not None:
                    self.answer(line)
            # An exception has this frame, as in the synchronous loop.
            del returned, outcome
        except BaseException as error:
            self.error = error
        finally:
            self.tasks.pop(str(job_.ref), None)
            self._begin_next()

    def _begin_next(self) -> None:
        """Begins what waited for the end of a job."""
        try:
            if self.error is None and not self.stopping:
                self._begin_arrived()
        except BaseException as error:
            self.error = error
        self._check()

    def _begin_arrived(self) -> None:
        # A job that was cancelled while it waited must not begin.
        while self.waiting and self.channel.is_readable():
            self.channel.fill()
            for message in self.channel.messages():
                self._take(message)
        self._begin()


_default = Worker(DECLARED)
job = _default.job
middleware = _default.middleware
errors = _default.errors
on = _default.on
run = _default.run
use_codecs = _default.use_codecs
