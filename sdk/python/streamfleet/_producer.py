"""Submits jobs and looks them up, with the caller's own redis-py client.

It sends what docs/wire.md lets every language send, and nothing else: one XADD per job, no script, no key of its own.
"""

import asyncio
import base64
import copy
import difflib
import json
import math
import re
import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Literal, Mapping, Optional, Sequence, Tuple, TypedDict, Union, cast

from ._trace import TRACESTATE
from ._trace import current as current_trace

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .codecs import Codecs

MAX_PAYLOAD_BYTES = 8 * 1024 * 1024
MAX_FIELDS = 1000
MAX_HEADER_BYTES = 8192
MAX_THEN_BYTES = 64 * 1024
MAX_THEN = 64
LONGEST_TIMEOUT_MS = 7 * 24 * 3600 * 1000
YEAR_10000_MS = 253_402_300_800_000
#: September 2001. Numbers before that are meant as seconds from now.
EARLIEST_MS = 1_000_000_000_000

#: A pipeline has at most this many jobs and roughly this many bytes.
PIPELINE_JOBS = 500
PIPELINE_BYTES = 4 * 1024 * 1024

#: A job that was seen and then cannot be found for this long, in seconds, is gone.
MISSING_FOR = 5.0

_TYPE = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")
_QUEUE = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_ENTRY = re.compile(r"([0-9]+-[0-9]+)(?:-(high|low))?")
_LONG_NUMBER = re.compile(r"[0-9]{19}")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_FINAL = ("done", "dead", "cancelled")
#: The fields of a job's record that other programs may read.
_RECORD = (b"state", b"type", b"created_ms", b"result", b"error", b"progress", b"note", b"children")

#: Tells redis-py not to decode a reply, whatever decode_responses and encoding say.
_AS_BYTES = {"NEVER_DECODE": True}

#: Seconds, as a number or a timedelta.
Seconds = Union[int, float, timedelta]
#: An aware datetime, or seconds since 1970 like those of time.time().
Instant = Union[datetime, int, float]
JsonDefault = Callable[[Any], Any]


#: Which jobs leave a record: all, those that fail, or none.
Tracking = Literal["all", "failures", "none"]


class Options(TypedDict, total=False):
    """The options of :class:`Submission`."""

    queue: Optional[str]
    lane: Optional[str]
    priority: Optional[int]
    delay: Optional[Seconds]
    run_at: Optional[Instant]
    expires_at: Optional[Instant]
    id: Optional[str]
    headers: Optional[Mapping[str, str]]
    max_attempts: Optional[int]
    timeout: Optional[Seconds]
    tracking: Optional[Tracking]
    on_success: Optional[str]
    on_failure: Optional[str]
    then: Optional[Sequence[Mapping[str, Any]]]
    batch: Optional[str]
    traceparent: Optional[str]
    encoding: Optional[str]
    unique: Optional[str]
    unique_scope: Union[str, Seconds, None]
    unique_mode: Optional[str]
    json_default: Optional[JsonDefault]


#: What options of other libraries, and of streamfleet's own command line, are called here.
_MEANT = {
    "args": "payload",
    "attempts": "max_attempts",
    "countdown": "delay",
    "data": "payload",
    "eta": "run_at",
    "expires": "expires_at, a time: time.time() + 60",
    "expires_in": "expires_at, a time: time.time() + 60",
    "job_id": "id",
    "kwargs": "payload",
    "max_retries": "max_attempts, which counts the first attempt too",
    "retries": "max_attempts, which counts the first attempt too",
    "task_id": "id",
    "track": "tracking",
}


def check_options(options: Iterable[str]) -> None:
    """Refuses options that do not exist, and says which one is meant."""
    known = list(Options.__annotations__)
    for name in options:
        if name not in known:
            near = [_MEANT[name]] if name in _MEANT else difflib.get_close_matches(name, known, 1, 0.7)
            every = f"{', '.join(known)}. What the handler gets is the payload, such as a dict"
            raise TypeError(f"there is no option {name!r}: use {near[0] if near else every}")


def _milliseconds(name: str, value: Seconds, least: int = 0) -> int:
    if isinstance(value, timedelta):
        ms = value // timedelta(milliseconds=1)
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds or a timedelta, not {type(value).__name__}")
    elif not math.isfinite(value):
        raise ValueError(f"{name} is {value}")
    else:
        ms = round(value * 1000)
    if ms < least:
        raise ValueError(f"{name} is {ms} ms, but must be at least {least} ms")
    return ms


def _instant(name: str, value: Instant) -> int:
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise ValueError(f"{name} has no time zone: use datetime.now(timezone.utc) or astimezone()")
        ms = (value - _EPOCH) // timedelta(milliseconds=1)
    else:
        ms = _milliseconds(name, value)
    if not 0 <= ms < YEAR_10000_MS or (not isinstance(value, datetime) and not EARLIEST_MS <= ms <= 100_000_000_000_000):
        raise ValueError(f"{name} is out of range: give seconds since 1970, like time.time() + 60, not milliseconds and not seconds from now")
    return ms


def _whole(name: str, value: Any, least: int, most: int) -> bytes:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{name} must be a whole number from {least} to {most}, not {value!r}")
    return b"%d" % value


def _checked_int(text: str) -> int:
    number = int(text)
    if not -(2**63) <= number < 2**64:
        raise ValueError(f"the number {text} does not fit into 64 bits; send it as text")
    return number


def _json(value: Any, default: Optional[JsonDefault] = None) -> bytes:
    """Encodes JSON that every language reads back as it was: no NaN, no lone surrogate, no number beyond 64 bits."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"), default=default)
    except TypeError as error:
        if default is not None or "not JSON serializable" not in str(error):
            raise
        raise TypeError(f"{error}: json_default=str sends it as text") from None
    check_numbers(text)
    return text.encode("utf-8")


def check_numbers(text: str) -> None:
    """Refuses JSON with whole numbers beyond 64 bits, which most readers would round."""
    if _LONG_NUMBER.search(text):
        json.loads(text, parse_int=_checked_int)


def bytes_or(value: Any) -> Any:
    """A result as its handler returned it: bytes are kept as an object with their encoding."""
    if not (isinstance(value, dict) and set(value) == {"encoding", "data"} and value["encoding"] == "base64"):
        return value
    try:
        return base64.b64decode(value["data"])
    except (TypeError, ValueError):
        # A handler has returned such an object itself.
        return value


def _text(value: Any) -> Optional[str]:
    """The same with and without decode_responses."""
    if value is None or isinstance(value, str):
        return value
    return bytes(value).decode("utf-8", "replace")


def _checked_id(name: str, value: str, most: int) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, not {value!r}")
    data = value.encode("utf-8")
    if not 1 <= len(data) <= most or any(c.isspace() or ord(c) < 32 or 127 <= ord(c) < 160 for c in value):
        raise ValueError(f"{name} must be 1 to {most} bytes without white space and control characters: {value!r}")
    return data


def _type_name(name: str, value: str) -> bytes:
    if not isinstance(value, str) or not _TYPE.fullmatch(value):
        raise ValueError(f"{name} does not match {_TYPE.pattern}: {value!r}")
    return value.encode()


def check_type(value: str) -> None:
    """Refuses the name of a type that no job can have."""
    _type_name("type", value)


def _queue_name(value: str) -> str:
    if not isinstance(value, str) or not _QUEUE.fullmatch(value):
        raise ValueError(f"queue does not match {_QUEUE.pattern}: {value!r}")
    return value


#: The options that the handlers of this program declare, by the types of their jobs.
DECLARED: "Dict[str, Options]" = {}

#: Options that say the same in two ways: one that is given takes the place of the other.
_EITHER = (("lane", "priority"), ("priority", "lane"), ("delay", "run_at"), ("run_at", "delay"))


def _with_declared(type: str, options: "Options") -> "Options":  # noqa: A002
    """Adds what the handler of the type declares."""
    declared = DECLARED.get(type)
    if not declared:
        return options
    options_ = dict(options)
    replaced = {other for given, other in _EITHER if options_.get(given) is not None}
    merged: Any = {**{name: value for name, value in declared.items() if name not in replaced}, **options_}
    return cast("Options", merged)


class Submission:
    """A job before it is sent; every argument is checked here, so that nothing malformed reaches Redis.

    ``payload`` is any JSON value, or bytes, which are sent as they are. ``delay`` and ``timeout`` are seconds or a
    timedelta; ``run_at`` and ``expires_at`` an aware datetime or seconds since 1970. ``priority`` is 1 to 10 and stands
    for a lane; give a ``lane`` or a priority. ``batch`` is one that :meth:`Http.batch` has opened. ``unique``,
    ``unique_scope`` (a text of docs/submit.md, or a length) and ``unique_mode`` need :class:`Http` or :class:`Cli`. The other
    options are the fields of the same names in docs/wire.md. What is not given is what the handler of the type declares, if
    this program has one, and the trace is that of the code that creates the submission.
    """

    __slots__ = ("fields", "lane", "queue", "size", "unique", "unique_mode", "unique_scope")

    #: The most bytes of the payload before it is encoded.
    _most = MAX_PAYLOAD_BYTES

    def __init__(self, type: str, payload: Any = None, **options: "Unpack[Options]") -> None:  # noqa: A002
        check_options(options)
        type_ = _type_name("type", type)
        options = _with_declared(type, options)
        default = options.get("json_default")
        scope, queue = options.get("unique_scope"), options.get("queue")
        if options.get("unique") is None and (scope is not None or options.get("unique_mode") is not None):
            raise ValueError("unique_scope and unique_mode need unique")
        if scope is not None and not isinstance(scope, str):
            scope = f"{_milliseconds('unique_scope', scope)}ms"
        self.unique, self.unique_scope, self.unique_mode = options.get("unique"), scope, options.get("unique_mode")
        self.queue = None if queue is None else _queue_name(queue)
        self.lane = _lane(options.get("lane"), options.get("priority"))
        fields: List[Tuple[bytes, bytes]] = [(b"type", type_)]
        fields += _payload(payload, options.get("encoding"), default, self._most)
        fields += _when(options)
        fields += _terms(options)
        fields += _after(options, default)
        fields += _trace(options)
        for name, value in (options.get("headers") or {}).items():
            fields.append(_header(name, value))
        self._set(fields)

    def _set(self, fields: List[Tuple[bytes, bytes]]) -> None:
        if len(fields) > MAX_FIELDS:
            raise ValueError(f"a job may have at most {MAX_FIELDS} fields, not {len(fields)}")
        self.fields = fields
        self.size = sum(len(name) + len(value) for name, value in fields)

    def _encoded(self, header: Optional[str], payload: bytes) -> "Submission":
        """The same job with a payload that codecs have encoded, as the header says; without a header, it is the same."""
        _check_size(payload)
        encoded = copy.copy(self)
        if header is not None:
            own = (b"payload", b"encoding")
            fields = [pair for pair in self.fields if pair[0] not in own]
            encoded._set([*fields, (b"payload", payload), (b"encoding", b"raw"), (b"h.codec", header.encode())])
        return encoded


class _Unencoded(Submission):
    """A job whose payload codecs encode: it may be larger, because it may be compressed, or stored apart."""

    __slots__ = ()

    _most = 2**31


def _when(options: "Options") -> List[Tuple[bytes, bytes]]:
    """The id of a job, and its times."""
    fields: List[Tuple[bytes, bytes]] = []
    id, delay = options.get("id"), options.get("delay")  # noqa: A001
    run_at, expires_at = options.get("run_at"), options.get("expires_at")
    if id is not None:
        fields.append((b"id", _checked_id("id", id, 128)))
        if _ENTRY.fullmatch(id):
            raise ValueError(f"an id of your own must not look like that of a stream entry: {id!r}")
    if delay is not None:
        fields.append((b"delay_ms", b"%d" % _milliseconds("delay", delay)))
    if run_at is not None:
        fields.append((b"run_at_ms", b"%d" % _instant("run_at", run_at)))
    if expires_at is not None:
        fields.append((b"expires_at_ms", b"%d" % _instant("expires_at", expires_at)))
    return fields


def _terms(options: "Options") -> List[Tuple[bytes, bytes]]:
    """What a job is allowed."""
    fields: List[Tuple[bytes, bytes]] = []
    max_attempts, timeout, tracking = options.get("max_attempts"), options.get("timeout"), options.get("tracking")
    if max_attempts is not None:
        fields.append((b"max_attempts", _whole("max_attempts", max_attempts, 1, 2**32 - 1)))
    if timeout is not None:
        ms = _milliseconds("timeout", timeout, 1)
        fields.append((b"timeout_ms", _whole("timeout in ms", ms, 1, LONGEST_TIMEOUT_MS)))
    if tracking is not None:
        if tracking not in ("all", "failures", "none"):
            raise ValueError(f"tracking must be all, failures or none, not {tracking!r}")
        fields.append((b"tracking", tracking.encode()))
    return fields


def _after(options: "Options", default: Optional[JsonDefault]) -> List[Tuple[bytes, bytes]]:
    """What follows the end of a job."""
    fields: List[Tuple[bytes, bytes]] = []
    on_success, on_failure = options.get("on_success"), options.get("on_failure")
    then, batch = options.get("then"), options.get("batch")
    if on_success is not None:
        fields.append((b"on_success", _type_name("on_success", on_success)))
    if on_failure is not None:
        fields.append((b"on_failure", _type_name("on_failure", on_failure)))
    if then:
        fields.append((b"then", _then(then, default)))
    if batch is not None:
        fields.append((b"batch", _checked_id("batch", batch, 100)))
    return fields


def _trace(options: "Options") -> List[Tuple[bytes, bytes]]:
    """The trace that a job belongs to. Its state travels as a header."""
    given = options.get("traceparent")
    parent, state = (given, None) if given is not None else current_trace()
    fields = [] if parent is None else [(b"traceparent", parent.encode("ascii"))]
    if parent is not None and state is not None and TRACESTATE not in (options.get("headers") or {}):
        fields.append(_header(TRACESTATE, state))
    return fields


def checked_submission(value: Any) -> Submission:
    if not isinstance(value, Submission):
        raise TypeError(f"use Submission(type, payload), not {type(value).__name__}")
    return value


def _lane(lane: Optional[str], priority: Optional[int]) -> str:
    if priority is not None:
        if lane is not None:
            raise ValueError("give a lane or a priority, not both")
        _whole("priority", priority, 1, 10)
        return "high" if priority >= 8 else "normal" if priority >= 4 else "low"
    if lane not in (None, "high", "normal", "low"):
        raise ValueError(f"lane must be high, normal or low, not {lane!r}")
    return lane or "normal"


def _check_size(payload: bytes, most: int = MAX_PAYLOAD_BYTES) -> None:
    if len(payload) > most:
        raise ValueError(f"the payload has {len(payload)} bytes; the most is {most}: store it elsewhere, such as by Codecs(claims=…)")


def _payload(payload: Any, encoding: Optional[str], default: Optional[JsonDefault], most: int) -> List[Tuple[bytes, bytes]]:
    if isinstance(payload, (bytes, bytearray, memoryview)):
        data = bytes(payload)
        encoding = encoding or "raw"
        if encoding not in ("json", "msgpack", "raw"):
            raise ValueError(f"encoding must be json, msgpack or raw, not {encoding!r}")
    elif encoding not in (None, "json"):
        raise TypeError(f"a payload with the encoding {encoding!r} must be bytes")
    else:
        data, encoding = _json(payload, default), "json"
    _check_size(data, most)
    fields = [(b"payload", data)]
    if encoding != "json":
        fields.append((b"encoding", encoding.encode()))
    return fields


def _header(name: str, value: str) -> Tuple[bytes, bytes]:
    if not isinstance(name, str) or not isinstance(value, str):
        raise TypeError(f"a header's name and value must be text: {name!r}: {value!r}")
    key, data = name.encode("utf-8"), value.encode("utf-8")
    if not 1 <= len(key) <= 128 or len(data) > MAX_HEADER_BYTES:
        raise ValueError(f"the header {name!r} is too large: a name has 1 to 128 bytes, a value at most 8192")
    return b"h." + key, data


def _then(jobs: Sequence[Mapping[str, Any]], default: Optional[JsonDefault]) -> bytes:
    if len(jobs) > MAX_THEN:
        raise ValueError(f"then may have at most {MAX_THEN} jobs, not {len(jobs)}")
    for follower in jobs:
        if not isinstance(follower, Mapping):
            raise TypeError(f"a job in then must be a dict with a type, not {follower!r}")
        _type_name("the type of a job in then", follower.get("type", ""))
        unknown = set(follower) - {"type", "payload", "on_failure", "queue"}
        if unknown:
            raise ValueError(f"a job in then may have type, payload, on_failure and queue, but not {sorted(unknown)[0]!r}")
        if "queue" in follower:
            _queue_name(follower["queue"])
    data = _json(list(jobs), default)
    if len(data) > MAX_THEN_BYTES:
        raise ValueError(f"then has {len(data)} bytes; the most is {MAX_THEN_BYTES}")
    return data


class BulkError(Exception):
    """Some jobs of a bulk submission were not accepted, or nobody knows whether they were.

    ``ids`` has the id of each accepted job, in the order of the submissions, and None for the others. ``errors`` has
    the reason for each of these. After a ``redis.exceptions.ConnectionError`` or ``TimeoutError`` the job may have been
    accepted.
    """

    def __init__(self, ids: List[Optional[str]], errors: List[Optional[BaseException]]) -> None:
        first = next(error for error in errors if error is not None)
        count = sum(error is not None for error in errors)
        super().__init__(f"{count} of {len(errors)} jobs were not confirmed: {first}")
        self.ids = ids
        self.errors = errors


class NotSent(Exception):
    """The job was not sent, because the connection had failed before."""


class NotEnded(TimeoutError):
    """The job did not end in time. It still runs, or waits."""

    def __init__(self, id: str, state: Optional[str]) -> None:  # noqa: A002
        super().__init__(
            f"the job {id} has no record: it has not ended, or it has succeeded and left none. `streamfleet status {id}` "
            "says which. To wait for such a job, submit it with tracking='all' or an id of its own"
            if state is None
            else f"the job {id} has not ended; its state is {state}"
        )
        self.id = id
        self.state = state


class Gone(LookupError):
    """The job was known and is no longer: it left no record. Submit it with tracking="all"."""


class JobFailed(Exception):
    """The job is dead or cancelled, so it has no result."""


@dataclass(frozen=True)
class Status:
    """What is known about a job."""

    id: str
    #: done, dead and cancelled are final. Before that, the state may lag behind that of `streamfleet status`.
    state: str
    type: Optional[str] = None
    created_ms: Optional[int] = None
    #: The last error, or why it was cancelled; None after a success.
    error: Optional[str] = None
    #: The progress that its handler reported, 0 to 100.
    progress: Optional[float] = None
    note: Optional[str] = None
    #: The result as JSON text; see :meth:`value`.
    result: Optional[str] = None
    #: The ids of the jobs that followed its end.
    children: Tuple[str, ...] = ()

    @property
    def ended(self) -> bool:
        return self.state in _FINAL

    def value(self) -> Any:
        """Returns the result of a job that is done: JSON, or bytes if the handler returned bytes; None if it has none.

        :raises JobFailed: the job is dead or cancelled.
        """
        if self.state in ("dead", "cancelled"):
            raise JobFailed(f"the job {self.id} is {self.state}: {self.error or 'no error was recorded'}")
        if self.state != "done" or self.result is None:
            return None
        try:
            value = json.loads(self.result)
        except ValueError:
            return self.result
        return bytes_or(value)


class _Wait:
    """When to look again: quickly at first, then four times a second."""

    def __init__(self, id: str, timeout: Optional[Seconds]) -> None:  # noqa: A002
        self.id = id
        ms = None if timeout is None else _milliseconds("timeout", timeout)
        self.until = None if ms is None else time.monotonic() + ms / 1000
        self.pause = 0.005
        self.state: Optional[str] = None
        self.missing_since: Optional[float] = None

    def next(self, status: Optional[Status]) -> float:
        now = time.monotonic()
        if status is not None:
            self.state, self.missing_since = status.state, None
        elif self.state is not None:
            self.missing_since = self.missing_since or now
            if now - self.missing_since > MISSING_FOR:
                raise Gone(f"the job {self.id} is no longer known; it left no record")
        if self.until is not None and now >= self.until:
            raise NotEnded(self.id, self.state)
        pause = self.pause if self.until is None else min(self.pause, self.until - now)
        self.pause = min(self.pause * 1.5, 0.25)
        return pause


class _Base:
    def __init__(
        self,
        client: Any,
        *,
        queue: str = "default",
        namespace: str = "sf",
        json_default: Optional[JsonDefault] = None,
        codecs: "Optional[Codecs]" = None,
    ) -> None:
        self.client = client
        self.queue = _queue_name(queue)
        self.namespace = namespace
        self.json_default = json_default
        self.codecs = codecs

    def submission(self, type: str, payload: Any = None, **options: "Unpack[Options]") -> Submission:  # noqa: A002
        """Creates a submission with this producer's ``json_default``, for :meth:`enqueue_many`."""
        if self.json_default is not None:
            options.setdefault("json_default", self.json_default)
        return (Submission if self.codecs is None else _Unencoded)(type, payload, **options)

    def _to_send(self, submission: Submission) -> Submission:
        """The job as it is sent, which encodes its payload if this producer has codecs. That may take as long as its store does."""
        return submission if self.codecs is None else self.codecs.encode(submission)

    def _key(self, queue: Optional[str], name: str) -> str:
        return f"{self.namespace}:{{{_queue_name(queue or self.queue)}}}:{name}"

    def _wake(self) -> List[Any]:
        key = f"{self.namespace}:outbox:{{outbox}}:wake".encode()
        return ["XADD", key, b"MAXLEN", b"1", b"*", b"wake", b"1"]

    def _xadd(self, submission: Submission) -> List[Any]:
        if submission.unique is not None:
            raise ValueError("a unique key is a lock, and a plain XADD cannot take it: submit this job with streamfleet.Http or Cli")
        lane = "jobs" if submission.lane == "normal" else f"jobs:{submission.lane}"
        # Bytes, because a client may have been given another encoding for text.
        command: List[Any] = ["XADD", self._key(submission.queue, lane).encode(), b"*"]
        for pair in submission.fields:
            command += pair
        return command

    def _id(self, submission: Submission, reply: Any) -> str:
        for name, value in submission.fields:
            if name == b"id":
                return value.decode("utf-8")
        entry = _text(reply)
        if entry is None:
            raise RuntimeError("Redis answered XADD with nothing")
        return entry if submission.lane == "normal" else f"{entry}-{submission.lane}"

    @staticmethod
    def _chunks(submissions: Iterable[Submission]) -> Iterable[List[Submission]]:
        chunk: List[Submission] = []
        size = 0
        for submission in map(checked_submission, submissions):
            if chunk and (len(chunk) >= PIPELINE_JOBS or size + submission.size > PIPELINE_BYTES):
                yield chunk
                chunk, size = [], 0
            chunk.append(submission)
            size += submission.size
        if chunk:
            yield chunk

    def _note(self, chunk: List[Submission], replies: Sequence[Any], ids: List[Any], errors: List[Any]) -> None:
        for submission, reply in zip(chunk, replies):
            failed = isinstance(reply, BaseException)
            ids.append(None if failed else self._id(submission, reply))
            errors.append(reply if failed else None)

    def _lookup(self, id: str, queue: Optional[str]) -> List[Any]:  # noqa: A002
        return ["HMGET", self._key(queue, "job:").encode() + _checked_id("id", id, 128), *_RECORD]

    @staticmethod
    def _status(id: str, reply: Sequence[Any]) -> Optional[Status]:  # noqa: A002
        state, type_, created, result, error, progress, note, children = map(_text, reply)
        if state is None:
            return None
        return Status(
            id=id,
            state=state,
            type=type_,
            created_ms=None if created is None else int(created),
            error=None if state == "done" else error,
            progress=None if progress is None else float(progress),
            note=note,
            result=result,
            children=tuple((children or "").split()),
        )


class Producer(_Base):
    """Submits jobs with a ``redis.Redis``, ``redis.RedisCluster`` or Sentinel client of yours.

    It takes no notice of ``decode_responses`` and of the client's encoding.
    """

    def enqueue(self, type: str, payload: Any = None, **options: "Unpack[Options]") -> str:  # noqa: A002
        """Submits a job and returns its id; see :class:`Submission` for the options.

        :raises redis.exceptions.RedisError: after a ConnectionError or TimeoutError, the job may have been accepted.
        """
        return self.send(self.submission(type, payload, **options))

    def send(self, submission: Submission) -> str:
        """Submits one submission and returns the job's id."""
        return self._id(submission, self.client.execute_command(*self._xadd(self._to_send(submission))))

    def enqueue_many(self, submissions: Iterable[Submission]) -> List[str]:
        """Submits many jobs in few round trips and returns their ids, in the same order.

        :raises BulkError: some were not accepted. The others were, and the error has their ids.
        """
        ids: List[Any] = []
        errors: List[Any] = []
        broken: Optional[BaseException] = None
        for chunk in self._chunks(submissions):
            try:
                if broken is None:
                    replies = self._pipelined([self._xadd(self._to_send(submission)) for submission in chunk])
                else:
                    replies = [NotSent(f"not sent after {broken}")] * len(chunk)
            except Exception as error:
                if not _is_expected(error):
                    raise
                broken, replies = error, [error] * len(chunk)
            self._note(chunk, replies, ids, errors)
        if any(errors):
            raise BulkError(ids, errors)
        return ids

    def wake_outbox(self) -> None:
        """Tells the relay of the outbox that rows were committed, so that it does not wait until it looks again.

        Call it after the commit. Nothing depends on it: if it fails, the rows are found a little later.

        :raises redis.exceptions.RedisError: Redis does not answer or refuses.
        """
        self.client.execute_command(*self._wake())

    def _pipelined(self, commands: List[List[Any]]) -> List[Any]:
        with self.client.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.execute_command(*command)
            replies: List[Any] = pipe.execute(raise_on_error=False)
            return replies

    def status(self, id: str, *, queue: Optional[str] = None) -> Optional[Status]:  # noqa: A002
        """Reads the job's record. None: its first attempt has not begun, it left no record, or it never existed.

        A plain job that succeeds leaves no record: give it ``tracking="all"`` or an id of its own.
        """
        return self._status(id, self.client.execute_command(*self._lookup(id, queue), **_AS_BYTES))

    def result(self, id: str, *, queue: Optional[str] = None) -> Any:  # noqa: A002
        """Returns the result of a job that is done, and None if there is none, or none yet.

        :raises JobFailed: the job is dead or cancelled.
        """
        status = self.status(id, queue=queue)
        return None if status is None else status.value()

    def wait(self, id: str, timeout: Optional[Seconds] = None, *, queue: Optional[str] = None) -> Status:  # noqa: A002
        """Waits for the end of a job that leaves a record (``tracking="all"``, or an id of its own).

        :raises NotEnded: it did not end in time.
        :raises Gone: it was known, and left no record.
        """
        wait = _Wait(id, timeout)
        while True:
            status = self.status(id, queue=queue)
            if status is not None and status.ended:
                return status
            time.sleep(wait.next(status))


class AsyncProducer(_Base):
    """The same with a client of ``redis.asyncio``."""

    async def enqueue(self, type: str, payload: Any = None, **options: "Unpack[Options]") -> str:  # noqa: A002
        """See :meth:`Producer.enqueue`."""
        return await self.send(self.submission(type, payload, **options))

    async def send(self, submission: Submission) -> str:
        """See :meth:`Producer.send`."""
        [encoded] = await self._all_to_send([submission])
        return self._id(submission, await self.client.execute_command(*self._xadd(encoded)))

    async def _all_to_send(self, submissions: Sequence[Submission]) -> Sequence[Submission]:
        """The jobs as they are sent. Encryption and a store take time, so others go on meanwhile."""
        return submissions if self.codecs is None else await asyncio.to_thread(list, map(self._to_send, submissions))

    async def enqueue_many(self, submissions: Iterable[Submission]) -> List[str]:
        """See :meth:`Producer.enqueue_many`."""
        ids: List[Any] = []
        errors: List[Any] = []
        broken: Optional[BaseException] = None
        for chunk in self._chunks(submissions):
            try:
                if broken is None:
                    replies = await self._pipelined([self._xadd(submission) for submission in await self._all_to_send(chunk)])
                else:
                    replies = [NotSent(f"not sent after {broken}")] * len(chunk)
            except Exception as error:
                if not _is_expected(error):
                    raise
                broken, replies = error, [error] * len(chunk)
            self._note(chunk, replies, ids, errors)
        if any(errors):
            raise BulkError(ids, errors)
        return ids

    async def wake_outbox(self) -> None:
        """See :meth:`Producer.wake_outbox`."""
        await self.client.execute_command(*self._wake())

    async def _pipelined(self, commands: List[List[Any]]) -> List[Any]:
        async with self.client.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.execute_command(*command)
            replies: List[Any] = await pipe.execute(raise_on_error=False)
            return replies

    async def status(self, id: str, *, queue: Optional[str] = None) -> Optional[Status]:  # noqa: A002
        """See :meth:`Producer.status`."""
        return self._status(id, await self.client.execute_command(*self._lookup(id, queue), **_AS_BYTES))

    async def result(self, id: str, *, queue: Optional[str] = None) -> Any:  # noqa: A002
        """See :meth:`Producer.result`."""
        status = await self.status(id, queue=queue)
        return None if status is None else status.value()

    async def wait(self, id: str, timeout: Optional[Seconds] = None, *, queue: Optional[str] = None) -> Status:  # noqa: A002
        """See :meth:`Producer.wait`."""
        wait = _Wait(id, timeout)
        while True:
            status = await self.status(id, queue=queue)
            if status is not None and status.ended:
                return status
            await asyncio.sleep(wait.next(status))


def _is_expected(error: BaseException) -> bool:
    """True for the errors of codecs and of redis-py, which this module never imports: handlers need no dependency."""
    named = ("redis.", "streamfleet.codecs.")
    return any(base.__module__.startswith(named) for base in type(error).__mro__) or isinstance(error, OSError)
