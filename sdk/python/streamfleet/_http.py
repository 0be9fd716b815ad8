"""Submits jobs by the HTTP API of ``streamfleet console``, which offers what a plain XADD cannot, and needs no login to Redis.

Every submission can be repeated without a second job: one without an id of its own has a key, which stays the same when the
request is sent again.
"""

import asyncio
import http.client
import json
import random
import ssl
import threading
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, TypeVar
from urllib.parse import quote, urlsplit

from ._cli import Accepted, Refused, Unconfirmed
from ._line import line_of
from ._producer import (
    BulkError,
    Gone,
    JsonDefault,
    NotEnded,
    NotSent,
    Seconds,
    Status,
    Submission,
    _Base,
    _checked_id,
    _milliseconds,
    _queue_name,
    checked_submission,
)
from ._version import VERSION

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._producer import Options

#: How often a request is sent, if nothing answers, or the answer says that it may be sent again.
ATTEMPTS = 4
#: How long one request waits for the end of a job; the API allows 60 s.
WAIT = 30.0
#: The API takes no larger body. One with many jobs may have more, but then a broken connection costs more, too.
MAX_BODY_BYTES = 9 * 1024 * 1024
#: What stands for a result that the token may not see.
HIDDEN = "***"

_NOT_CONFIRMED = "urn:streamfleet:problem:the-durability-is-not-confirmed"
_JSON = "application/json"
_LINES = "application/x-ndjson"
_REMEDIES = {
    401: "the token is missing or wrong: `streamfleet console token` generates one, whose hash belongs into the file of accounts",
    403: "the token may not do this: give it the role for this queue in the console's file of accounts",
    404: "is the url that of the console, without /api/v1?",
    421: "the console does not know this host: use the one of console.public_url",
}

R = TypeVar("R")


class Invalid(ValueError):
    """The API refuses a job because of its fields. ``fields`` has what is wrong with each, by JSON pointers such as ``/delay``."""

    def __init__(self, text: str, fields: Mapping[str, str]) -> None:
        super().__init__(text)
        self.fields = dict(fields)


@dataclass(frozen=True)
class Batch:
    """How far a batch is."""

    name: str
    #: ``open`` while members can be added, ``closed`` while it waits for them, or ``done``.
    state: str
    members: int
    #: How many of them have not succeeded yet.
    left: int
    #: Some of these.
    waiting_for: Sequence[str]


class _Answer:
    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status, self.body = status, body
        self.headers = {name.lower(): value for name, value in headers.items()}

    def json(self) -> Any:
        return json.loads(self.body)

    def problem(self) -> Dict[str, Any]:
        """What the API says is wrong. What stands between may answer too, in its own words."""
        try:
            problem = self.json()
        except ValueError:
            problem = None
        return problem if isinstance(problem, dict) else {"detail": self.body[:200].decode("utf-8", "replace").strip()}

    def may_repeat(self) -> bool:
        return self.status in (429, 502, 503) or self.status == 504 and self.problem().get("type") != _NOT_CONFIRMED

    def pause(self) -> Optional[float]:
        after = self.headers.get("retry-after", "")
        return float(after) if after.isdigit() else None


class _NotConnected(Exception):
    """Nothing was sent."""


class _Api:
    """One connection for each thread, which stays open from one request to the next."""

    def __init__(self, url: str, token: str, context: Optional[ssl.SSLContext]) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
            raise ValueError(f"url must be the address of the console, such as https://jobs.example.com, not {url!r}")
        if not isinstance(token, str) or not token.strip() or not token.isascii() or not token.isprintable():
            raise ValueError("token must be what `streamfleet console token` printed as token")
        self.url = url.rstrip("/")
        self._is_tls, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._context = context
        self._base = f"{parts.path.rstrip('/')}/api/v1/"
        self._headers = {"Authorization": f"Bearer {token.strip()}", "User-Agent": f"streamfleet-python {VERSION}"}
        self._local = threading.local()

    def ask(self, method: str, path: str, seconds: float, body: Optional[bytes] = None, headers: Mapping[str, str] = {}) -> _Answer:
        """Sends a request, up to :data:`ATTEMPTS` times within this many seconds.

        :raises Refused: nothing was sent.
        :raises Unconfirmed: nobody knows what became of it.
        """
        until, is_doubtful, why = time.monotonic() + seconds, False, ""
        for attempt in range(1, ATTEMPTS + 1):
            pause: Optional[float] = None
            try:
                answer = self._once(method, path, max(0.001, until - time.monotonic()), body, headers)
                if not answer.may_repeat():
                    return answer
                pause, why = answer.pause(), f"{answer.status}: {answer.problem().get('detail', '')}"
                is_doubtful |= answer.status != 429
            except _NotConnected as error:
                why = f"cannot connect: {error}"
            except (OSError, http.client.HTTPException) as error:
                is_doubtful, why = True, f"{type(error).__name__}: {error}"
            pause = random.uniform(0.5, 1) * 0.2 * 2**attempt if pause is None else pause
            if attempt == ATTEMPTS or time.monotonic() + pause >= until:
                break
            time.sleep(pause)
        text = f"{method} {self.url}/api/v1/{path}: {why} (attempt {attempt}, {seconds:g} s)"
        raise Unconfirmed(text) if is_doubtful else Refused(text)

    def _once(self, method: str, path: str, seconds: float, body: Optional[bytes], headers: Mapping[str, str]) -> _Answer:
        connection = self._connection(seconds)
        try:
            connection.request(method, self._base + path, body, {**self._headers, **headers})
            response = connection.getresponse()
            return _Answer(response.status, dict(response.getheaders()), response.read())
        except BaseException:
            self._local.held = None
            raise

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        held: Optional[_Held] = getattr(self._local, "held", None)
        if held is not None and held.is_open():
            held.connection.sock.settimeout(seconds)
            return held.connection
        if self._is_tls:
            new: http.client.HTTPConnection = http.client.HTTPSConnection(self._host, self._port, timeout=seconds, context=self._context)
        else:
            new = http.client.HTTPConnection(self._host, self._port, timeout=seconds)
        try:
            new.connect()
        except OSError as error:
            new.close()
            raise _NotConnected(error) from error
        self._local.held = _Held(new)
        return new


class _Held:
    """A connection that is closed when its thread or its API is gone."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.connection = connection

    def is_open(self) -> bool:
        """False if the other side has closed it meanwhile: the next request would fail."""
        if self.connection.sock is None:
            return False
        self.connection.sock.settimeout(0)
        try:
            return self.connection.sock.recv(1) != b""
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            return False

    def __del__(self) -> None:
        self.connection.close()


class Http:
    """Submits jobs by the HTTP API, and follows them: ids that are accepted once, unique keys, results, batches.

    It may be used by several threads.

    :param url: the address of ``streamfleet console``.
    :param token: a token of its file of accounts, with the role ``submitter``. To see results and errors, it needs ``payloads = true``.
    :param timeout: how many seconds a call may take with all its attempts, besides the time that it waits for a job.
    :param context: certificates other than those of the system.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        queue: str = "default",
        timeout: Seconds = 30,
        json_default: Optional[JsonDefault] = None,
        context: Optional[ssl.SSLContext] = None,
    ) -> None:
        self.queue = _queue_name(queue)
        self.timeout = _milliseconds("timeout", timeout, 1) / 1000
        self.json_default = json_default
        self._api = _Api(url, token, context)

    def submission(self, type: str, payload: Any = None, **options: "Unpack[Options]") -> Submission:  # noqa: A002
        """Creates a submission with this object's ``json_default``."""
        if self.json_default is not None:
            options.setdefault("json_default", self.json_default)
        return Submission(type, payload, **options)

    def enqueue(self, type: str, payload: Any = None, **options: "Unpack[Options]") -> Accepted:  # noqa: A002
        """Submits a job; see :class:`Submission` for the options.

        :raises Invalid: the job breaks a rule; nothing was submitted. A ValueError too.
        :raises Refused: nothing was submitted.
        :raises Unconfirmed: nobody knows whether it was.
        """
        return self.send(self.submission(type, payload, **options))

    def send(
        self,
        submission: Submission,
        *,
        key: Optional[str] = None,
        idempotent_for: Optional[Seconds] = None,
        durability: Optional[str] = None,
    ) -> Accepted:
        """Submits one submission.

        :param key: a text that is the same if you call it again for the same job, such as after :class:`Unconfirmed`, unless the
            job has an id. Without it, only the attempts of this call know each other.
        :param idempotent_for: for how long the id or the key is remembered at least, in seconds; 24 hours by default.
        :param durability: ``memory``, ``replicas:N`` or ``aof``.
        """
        path, body, headers, is_own = self._job(submission, key, idempotent_for, durability)
        answer = self._api.ask("POST", path, self.timeout, body, headers)
        return self._accepted(self._told(answer, (200, 201)), is_own and submission.unique is None)

    def run(self, submission: Submission, timeout: Optional[Seconds] = None, *, key: Optional[str] = None) -> Status:
        """Submits a job and waits for its end, for at most this many seconds. The job leaves a record.

        :raises NotEnded: it did not end in time.
        """
        until = _Until(timeout)
        path, body, headers, _ = self._job(submission, key, None, None)
        first = until.next()
        answer = self._api.ask("POST", f"{path}?wait={_ms(first)}ms", self.timeout + first, body, headers)
        told = self._told(answer, (200, 201, 202))
        queue = submission.queue or self.queue
        if answer.status == 202:
            return self._wait(told["id"], until, queue)
        return self._status_of(told, queue)

    def enqueue_many(self, submissions: Iterable[Submission]) -> List[str]:
        """Submits many jobs in few requests and returns their ids, in the same order.

        :raises BulkError: some were not accepted. The others were, and the error has their ids.
        """
        ids: List[Any] = []
        errors: List[Any] = []
        broken: Optional[BaseException] = None
        for chunk in _Base._chunks(submissions):
            for queue, part in _by_queue(chunk, self.queue):
                fates: List[Tuple[Optional[str], Optional[BaseException]]]
                try:
                    fates = [(None, NotSent(f"not sent after {broken}"))] * len(part) if broken else self._many(queue, part)
                except (Invalid, Refused, Unconfirmed) as error:
                    broken, fates = error, [(None, error)] * len(part)
                ids += [id for id, _ in fates]  # noqa: A001
                errors += [error for _, error in fates]
        if any(errors):
            raise BulkError(ids, errors)
        return ids

    def batch(self, name: str, members: Iterable[Submission], follow: Submission) -> List[str]:
        """Opens a batch: submits its members, and when all of them have succeeded, the job that follows.

        Returns the ids of the members: ``<name>.<number>``, unless they have others. After an error, call it again with the
        same members in the same order: none is accepted twice. See docs/callbacks.md.
        """
        queue = checked_submission(follow).queue or self.queue
        lines = []
        for member in map(checked_submission, members):
            if (member.queue or queue) != queue:
                raise ValueError(f"a batch has one queue, and this one has {queue!r} and {member.queue!r}")
            lines.append(line_of(member))
        body = b'{"follow":%s,"members":[%s]}' % (line_of(follow), b",".join(lines))
        if len(body) > MAX_BODY_BYTES:
            raise ValueError(f"the batch has {len(body)} bytes as JSON; the API takes {MAX_BODY_BYTES}: open it with Cli.batch")
        answer = self._api.ask("PUT", self._batch_path(name, queue), self.timeout, body, {"Content-Type": _JSON})
        ids: List[str] = self._told(answer, (200,))["ids"]
        return ids

    def batch_status(self, name: str, *, queue: Optional[str] = None) -> Optional[Batch]:
        """Returns how far a batch is; None if there is none of this name."""
        answer = self._api.ask("GET", self._batch_path(name, queue or self.queue), self.timeout)
        if answer.status == 404:
            return None
        told = self._told(answer, (200,))
        return Batch(told["name"], told["state"], told["members"], told["left"], told["waiting_for"])

    def status(self, id: str, *, queue: Optional[str] = None) -> Optional[Status]:  # noqa: A002
        """Returns what is known about a job; None if it left no record, or never existed."""
        return self._look(id, _queue_name(queue or self.queue), 0)

    def result(self, id: str, *, queue: Optional[str] = None) -> Any:  # noqa: A002
        """Returns the result of a job that is done, and None if there is none, or none yet.

        :raises JobFailed: the job is dead or cancelled.
        """
        status = self.status(id, queue=queue)
        return None if status is None else status.value()

    def wait(self, id: str, timeout: Optional[Seconds] = None, *, queue: Optional[str] = None) -> Status:  # noqa: A002
        """Waits for the end of a job that leaves a record (``tracking="all"``, or an id of its own).

        :raises NotEnded: it did not end in time.
        :raises Gone: it left no record, or never existed.
        """
        return self._wait(id, _Until(timeout), _queue_name(queue or self.queue))

    def _wait(self, id: str, until: "_Until", queue: str) -> Status:  # noqa: A002
        while True:
            pause = until.next()
            status = self._look(id, queue, pause)
            if status is None:
                raise Gone(f"the job {id} is not known in the queue {queue}: it never existed, or has succeeded and left no record. {_TRACK}")
            if status.ended:
                return status
            if until.is_over():
                raise NotEnded(id, status.state)

    def _look(self, id: str, queue: str, wait: float) -> Optional[Status]:  # noqa: A002
        query = f"?wait={_ms(wait)}ms" if wait else ""
        answer = self._api.ask("GET", _job_path(queue, id) + query, self.timeout + wait)
        return None if answer.status == 404 else self._status_of(self._told(answer, (200,)), queue)

    def _status_of(self, told: Mapping[str, Any], queue: str) -> Status:
        state, result, progress = told.get("state") or "unknown", told.get("result"), told.get("progress") or {}
        if result == HIDDEN:
            # A handler may have returned such a text. Otherwise, the token may not see it, and the answer says so.
            result = self._told(self._api.ask("GET", f"{_job_path(queue, told['id'])}/result", self.timeout), (200,))
        return Status(
            id=told["id"],
            state=state,
            type=told.get("type"),
            created_ms=told.get("created_ms"),
            error=None if state == "done" else told.get("error"),
            progress=progress.get("percent"),
            note=progress.get("note"),
            result=None if result is None else json.dumps(result, ensure_ascii=False),
            children=tuple(told.get("children") or ()),
        )

    def _job(
        self, submission: Submission, key: Optional[str], idempotent_for: Optional[Seconds], durability: Optional[str]
    ) -> Tuple[str, bytes, Dict[str, str], bool]:
        """The path, body and headers of a submission, and whether only this call knows its key."""
        has_id = b"id" in dict(checked_submission(submission).fields)
        is_own = key is None and not has_id
        extra: Dict[str, Any] = {}
        if idempotent_for is not None:
            extra["idempotent_for"] = _milliseconds("idempotent_for", idempotent_for)
        elif is_own:
            # The key of this call is forgotten soon after it.
            extra["idempotent_for"] = round(self.timeout * 2000) + 60_000
        if durability is not None:
            extra["durability"] = durability
        body = line_of(submission)
        if extra:
            body = body[:-1] + b"," + json.dumps(extra).encode()[1:]
        headers = {"Content-Type": _JSON}
        if key is not None and not (1 <= len(key) <= 255 and key.isascii() and key.isprintable() and " " not in key):
            raise ValueError(f"key must be 1 to 255 visible ASCII characters, not {key!r}")
        if not has_id:
            headers["Idempotency-Key"] = uuid.uuid4().hex if key is None else key
        return f"queues/{submission.queue or self.queue}/jobs", body, headers, is_own

    @staticmethod
    def _accepted(told: Mapping[str, Any], is_own: bool) -> Accepted:
        is_debounced = told.get("debounced", False)
        # If an answer was lost, the next attempt finds the job. Nobody else can have this key.
        is_new = is_own or not told["existing"]
        return Accepted(told["id"], told["state"], is_new and not is_debounced, told.get("replaced"), is_debounced)

    def _many(self, queue: str, submissions: Sequence[Submission]) -> List[Tuple[Optional[str], Optional[BaseException]]]:
        body = b"\n".join(map(line_of, submissions)) + b"\n"
        headers = {"Content-Type": _LINES, "Idempotency-Key": uuid.uuid4().hex}
        path = f"queues/{queue}/jobs"
        for attempt in range(1, ATTEMPTS + 1):
            answer = self._api.ask("POST", path, self.timeout, body, headers)
            if answer.status != 200:
                self._told(answer, (200,))
            lines = [json.loads(line) for line in answer.body.splitlines()]
            # Without its last line, the answer was cut off. The same key makes the same jobs.
            if lines and "done" in lines[-1] or attempt == ATTEMPTS:
                break
        fates = {line["line"]: line for line in lines if "line" in line}
        return [self._fate(fates.get(number)) for number in range(1, len(submissions) + 1)]

    def _fate(self, line: Optional[Mapping[str, Any]]) -> Tuple[Optional[str], Optional[BaseException]]:
        if line is None:
            return None, Unconfirmed("the answer of the API was cut off before this job")
        problem = line.get("problem")
        if problem is None:
            return line["id"], None
        return None, _error(int(problem.get("status", 500)), problem, self._api.url)

    def _batch_path(self, name: str, queue: str) -> str:
        return f"queues/{_queue_name(queue)}/batches/{_part(_checked_id('batch', name, 100).decode())}"

    def _told(self, answer: _Answer, good: Tuple[int, ...]) -> Any:
        if answer.status in good:
            try:
                return answer.json()
            except ValueError:
                raise Unconfirmed(f"{self._api.url} answered {answer.status} without JSON: {_REMEDIES[404]}") from None
        raise _error(answer.status, answer.problem(), self._api.url)


_TRACK = "Submit it with tracking='all' or an id of its own"


class _Until:
    """For how long the next request waits."""

    def __init__(self, timeout: Optional[Seconds]) -> None:
        self._end = None if timeout is None else time.monotonic() + _milliseconds("timeout", timeout) / 1000

    def next(self) -> float:
        return WAIT if self._end is None else min(WAIT, max(0.001, self._end - time.monotonic()))

    def is_over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _part(name: str) -> str:
    """A name in a path. What removes parts of dots alone must not take it for one."""
    return quote(name + " " if name in (".", "..") else name, safe="")


def _job_path(queue: str, id: str) -> str:  # noqa: A002
    return f"queues/{queue}/jobs/{_part(_checked_id('id', id, 128).decode())}"


def _by_queue(submissions: Sequence[Submission], default: str) -> Iterable[Tuple[str, List[Submission]]]:
    """Neighbors that go to the same queue, in their order."""
    queue, part = default, []  # type: str, List[Submission]
    for submission in submissions:
        if part and (submission.queue or default) != queue:
            yield queue, part
            part = []
        queue = submission.queue or default
        part.append(submission)
    if part:
        yield queue, part


def _error(status: int, problem: Mapping[str, Any], url: str) -> BaseException:
    detail = str(problem.get("detail") or problem.get("title") or "no reason was given")
    if status in (400, 413, 415, 422):
        fields = {str(each.get("at")): str(each.get("detail")) for each in problem.get("errors") or () if isinstance(each, dict)}
        return Invalid(f"the API refuses the job: {detail}", fields)
    remedy = f"; {_REMEDIES[status]}" if status in _REMEDIES else ""
    text = f"{url} answered {status}: {detail}{remedy}"
    return Unconfirmed(text) if status >= 500 else Refused(text)


class AsyncHttp:
    """:class:`Http` for asyncio. Each call runs in a thread, which goes on if its task is cancelled."""

    def __init__(self, url: str, token: str, **options: Any) -> None:
        self._http = Http(url, token, **options)

    def submission(self, type: str, payload: Any = None, **options: "Unpack[Options]") -> Submission:  # noqa: A002
        """See :meth:`Http.submission`."""
        return self._http.submission(type, payload, **options)

    async def enqueue(self, type: str, payload: Any = None, **options: "Unpack[Options]") -> Accepted:  # noqa: A002
        """See :meth:`Http.enqueue`."""
        return await self.send(self.submission(type, payload, **options))

    async def send(
        self,
        submission: Submission,
        *,
        key: Optional[str] = None,
        idempotent_for: Optional[Seconds] = None,
        durability: Optional[str] = None,
    ) -> Accepted:
        """See :meth:`Http.send`."""
        return await _aside(lambda: self._http.send(submission, key=key, idempotent_for=idempotent_for, durability=durability))

    async def run(self, submission: Submission, timeout: Optional[Seconds] = None, *, key: Optional[str] = None) -> Status:
        """See :meth:`Http.run`."""
        return await _aside(lambda: self._http.run(submission, timeout, key=key))

    async def enqueue_many(self, submissions: Iterable[Submission]) -> List[str]:
        """See :meth:`Http.enqueue_many`."""
        return await _aside(lambda: self._http.enqueue_many(submissions))

    async def batch(self, name: str, members: Iterable[Submission], follow: Submission) -> List[str]:
        """See :meth:`Http.batch`."""
        return await _aside(lambda: self._http.batch(name, members, follow))

    async def batch_status(self, name: str, *, queue: Optional[str] = None) -> Optional[Batch]:
        """See :meth:`Http.batch_status`."""
        return await _aside(lambda: self._http.batch_status(name, queue=queue))

    async def status(self, id: str, *, queue: Optional[str] = None) -> Optional[Status]:  # noqa: A002
        """See :meth:`Http.status`."""
        return await _aside(lambda: self._http.status(id, queue=queue))

    async def result(self, id: str, *, queue: Optional[str] = None) -> Any:  # noqa: A002
        """See :meth:`Http.result`."""
        return await _aside(lambda: self._http.result(id, queue=queue))

    async def wait(self, id: str, timeout: Optional[Seconds] = None, *, queue: Optional[str] = None) -> Status:  # noqa: A002
        """See :meth:`Http.wait`."""
        return await _aside(lambda: self._http.wait(id, timeout, queue=queue))


async def _aside(call: Callable[[], R]) -> R:
    return await asyncio.to_thread(call)
