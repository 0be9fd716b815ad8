"""Fakes for the tests of an application: producers that record jobs, and handlers that run without a worker.

    fake = FakeProducer()
    streamfleet.use(fake)
    register_customer("ann")                              # code of yours, which submits a job
    fake.assert_enqueued("mail.send", {"to": "ann"})      # one, whose payload has that

``fake.run()`` runs what was recorded, and what follows from it.
"""

import asyncio
import inspect
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional, Tuple

from ._cli import Accepted
from ._events import ENDINGS
from ._outcome import Done, Drop, Fatal, Outcome, Snooze
from ._producer import JsonDefault, Status, Submission, check_options, checked_submission
from ._trace import JOB, continued
from ._worker import Job, Worker, _default, _Loop, surrounded

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._producer import Options

__all__ = ["AsyncFakeHttp", "AsyncFakeProducer", "Ended", "FakeHttp", "FakeProducer", "Recorded", "arun", "run"]

#: More jobs than this that follow from one another are a circle.
MAX_JOBS = 1000
NOTHING: Any = object()


@dataclass
class Recorded:
    """A job that was submitted to a fake."""

    id: str
    type: str
    #: What the handler would get: JSON, or bytes.
    payload: Any
    queue: str
    lane: str
    headers: Dict[str, str]
    #: The other fields of docs/wire.md, as text: ``{"delay_ms": "60000"}``.
    fields: Dict[str, str]
    #: The unique key.
    unique: Optional[str] = None
    #: The ids of the jobs that followed its end.
    children: List[str] = field(default_factory=list)
    #: How its attempts ended, if the fake has run it.
    ended: "List[Ended]" = field(default_factory=list)

    def job(self, attempt: int = 1) -> Job[Any]:
        """The job that its handler gets."""
        most, timeout = self.fields.get("max_attempts"), self.fields.get("timeout_ms")
        return Job(
            self.type,
            self.payload,
            id=self.id,
            queue=self.queue,
            attempt=attempt,
            max_attempts=int(most) if most else None,
            timeout=int(timeout) / 1000 if timeout else None,
            headers=self.headers,
            encoding=self.fields.get("encoding", "json"),
            fence=f"{attempt}-0",
            traceparent=self.fields.get("traceparent"),
        )


@dataclass
class Ended:
    """How an attempt ended."""

    job: Job[Any]
    outcome: Outcome
    #: What the handler reported: percent and message.
    progress: List[Tuple[Optional[float], Optional[str]]]
    #: What it logged with ``job.log``.
    log: List[str]

    @property
    def result(self) -> Any:
        """What a successful handler returned."""
        if not isinstance(self.outcome, Done):
            raise AssertionError(f"{self.job.type} has no result: {type(self.outcome).__name__}: {self.error or self.outcome.args}")
        return self.outcome.result

    @property
    def error(self) -> Optional[str]:
        """Why it failed; None if it did not."""
        return None if self.outcome.error is None else str(self.outcome.error)


class _Notes:
    """Takes what a handler reports."""

    def __init__(self) -> None:
        self.progress: List[Tuple[Optional[float], Optional[str]]] = []
        self.log: List[str] = []

    def send(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "progress":
            self.progress.append((message.get("percent"), message.get("message")))
        elif message["type"] == "log":
            self.log.append(message["message"])

    def look(self) -> None:
        """Nobody cancels the job."""


class _Inline(_Loop):
    """Runs one attempt as a worker's program does: with middleware, rules for exceptions, and listeners."""

    def __init__(self, worker: Worker) -> None:
        notes: Any = _Notes()
        super().__init__(worker, notes, None, None)
        self.notes = notes

    def run(self, job: Job[Any]) -> Ended:
        token, job._channel = JOB.set(job), self.channel
        try:
            self.worker.listeners.tell("before", job)
            try:
                with continued(job):
                    returned = surrounded(self._handled, self.worker.middleware_)(job)
            except ENDINGS as error:
                returned = self.outcome_of(error, job)
            outcome, _ = self.answer_of(job, returned)
            self.worker.listeners.tell(self.end_of(job, outcome), job, outcome)
        finally:
            JOB.reset(token)
        return Ended(job, outcome, self.notes.progress, self.notes.log)

    async def arun(self, job: Job[Any]) -> Ended:
        token, job._channel = JOB.set(job), self.channel
        try:
            await self.worker.listeners.tell_async("before", job)
            try:
                with continued(job):
                    returned = await surrounded(self._awaited, self.worker.middleware_)(job)
            except ENDINGS as error:
                returned = self.outcome_of(error, job)
            outcome, _ = self.answer_of(job, returned)
            await self.worker.listeners.tell_async(self.end_of(job, outcome), job, outcome)
        finally:
            JOB.reset(token)
        return Ended(job, outcome, self.notes.progress, self.notes.log)

    def _handled(self, job: Job[Any]) -> Any:
        return self.worker.handlers[job.type].function(job)

    async def _awaited(self, job: Job[Any]) -> Any:
        returned: Any = self.worker.handlers[job.type].function(job)
        return await returned if inspect.isawaitable(returned) else returned


def _checked(worker: Worker, job: Job[Any]) -> Worker:
    if job.type not in worker.handlers:
        known = ", ".join(sorted(worker.handlers)) or "none"
        raise LookupError(f"there is no handler for {job.type!r}, only for {known}: import the module that registers it")
    return worker


def run(job: Job[Any], worker: Optional[Worker] = None) -> Ended:
    """Runs one attempt, as the program of a pool does, and says how it ended. Without a worker, it is that of the module's ``@job``."""
    worker = _checked(worker or _default, job)
    if any(handler.is_async for handler in worker.handlers.values()):
        return asyncio.run(_Inline(worker).arun(job))
    return _Inline(worker).run(job)


async def arun(job: Job[Any], worker: Optional[Worker] = None) -> Ended:
    """:func:`run` for tests that are coroutines."""
    worker = _checked(worker or _default, job)
    if any(handler.is_async for handler in worker.handlers.values()):
        return await _Inline(worker).arun(job)
    return _Inline(worker).run(job)


class _Fake:
    """What all fakes share: they record, and accept an id once, as the HTTP API does, if ``is_once``."""

    is_once = False

    def __init__(self, *, queue: str = "default", json_default: Optional[JsonDefault] = None, worker: Optional[Worker] = None) -> None:
        self.queue, self.json_default, self.worker = queue, json_default, worker
        #: The jobs, in their order.
        self.jobs: List[Recorded] = []
        self._next = 0
        #: The jobs that follow open batches.
        self._follow: Dict[str, Submission] = {}

    def submission(self, type: str, payload: Any = None, **options: "Unpack[Options]") -> Submission:  # noqa: A002
        """Creates a submission, with every check of a real one."""
        check_options(options)
        if self.json_default is not None:
            options.setdefault("json_default", self.json_default)
        return Submission(type, payload, **options)

    def clear(self) -> None:
        """Forgets all jobs."""
        self.jobs.clear()
        self._follow.clear()
        self._next = 0

    def enqueued(self, type: str, payload: Any = NOTHING, *, queue: Optional[str] = None) -> List[Recorded]:  # noqa: A002
        """The jobs of a type whose payload has this; other keys of an object do not count."""
        return [
            job
            for job in self.jobs
            if job.type == type and (queue is None or job.queue == queue) and (payload is NOTHING or _has(job.payload, payload))
        ]

    def assert_enqueued(self, type: str, payload: Any = NOTHING, *, queue: Optional[str] = None, times: int = 1) -> List[Recorded]:  # noqa: A002
        """Fails unless so many jobs of the type have this in their payloads, and returns them."""
        found = self.enqueued(type, payload, queue=queue)
        if len(found) != times:
            wanted = f"{times} × {type}" + ("" if payload is NOTHING else f" with {payload!r}") + (f" in {queue}" if queue else "")
            raise AssertionError(f"expected {wanted}, found {len(found)}; enqueued were: {self._listed()}")
        return found

    def assert_nothing_enqueued(self) -> None:
        """Fails if there is any job."""
        if self.jobs:
            raise AssertionError(f"expected no jobs; enqueued were: {self._listed()}")

    def _listed(self) -> str:
        return ", ".join(f"{job.type} {job.payload!r}" for job in self.jobs) or "none"

    def _record(self, submission: Submission, **more: str) -> Tuple[Recorded, bool]:
        """Records a job, and says whether it is new."""
        texts: Dict[str, str] = {}
        headers: Dict[str, str] = {}
        payload: Any = None
        for name, value in checked_submission(submission).fields:
            if name == b"payload":
                payload = value
            elif name.startswith(b"h."):
                headers[name[2:].decode()] = value.decode()
            else:
                texts[name.decode()] = value.decode()
        texts.update(more)
        payload = json.loads(payload) if texts.get("encoding", "json") == "json" and payload else payload
        queue, id_ = submission.queue or self.queue, texts.pop("id", None)
        if id_ is not None and self.is_once:
            for job in self.jobs:
                if job.id == id_ and job.queue == queue:
                    return job, False
        self._next += 1
        recorded = Recorded(id_ or f"fake-{self._next}", texts.pop("type"), payload, queue, submission.lane, headers, texts, submission.unique)
        self.jobs.append(recorded)
        return recorded, True

    def _batch(self, name: str, members: Iterable[Submission], follow: Submission) -> List[str]:
        ids = []
        for number, member in enumerate(members):
            job, _ = self._record(member, batch=name)
            job.id = job.id if b"id" in dict(member.fields) else f"{name}.{number}"
            ids.append(job.id)
        self._follow[name] = checked_submission(follow)
        return ids

    def _next_attempt(self) -> Optional[Recorded]:
        """A job that has not been run. Those with a delay count too: a test does not wait."""
        waiting = next((job for job in self.jobs if not job.ended), None)
        if waiting is not None and len(self.jobs) > MAX_JOBS:
            raise AssertionError(f"more than {MAX_JOBS} jobs: do they follow one another in a circle? The next is {waiting.type}")
        return waiting

    def _take(self, recorded: Recorded, ended: Ended) -> bool:
        """Notes how an attempt ended, and says whether there is another."""
        recorded.ended.append(ended)
        outcome = ended.outcome
        if isinstance(outcome, (Done, Drop, Snooze)):
            if isinstance(outcome, Done):
                self._succeeded(recorded, outcome.result)
            return False
        is_last = isinstance(outcome, Fatal) or len(recorded.ended) >= int(recorded.fields.get("max_attempts", 1))
        if is_last and "on_failure" in recorded.fields:
            reason = "fatal" if isinstance(outcome, Fatal) else "exhausted"
            self._follows(recorded, recorded.fields["on_failure"], {**_facts(recorded, "dead"), "reason": reason, "error": ended.error})
        return not is_last

    def _succeeded(self, recorded: Recorded, result: Any) -> None:
        facts = {**_facts(recorded, "done"), "result": result if not isinstance(result, bytes) else None}
        if "on_success" in recorded.fields:
            self._follows(recorded, recorded.fields["on_success"], facts)
        chain = json.loads(recorded.fields.get("then", "[]"))
        if chain:
            first, *rest = chain
            more: Any = {"on_failure": first.get("on_failure"), "then": rest or None, "queue": first.get("queue") or recorded.queue}
            self._follows(recorded, first["type"], first.get("payload", facts), **more)
        batch = recorded.fields.get("batch", "")
        members = [job for job in self.jobs if job.fields.get("batch") == batch]
        if batch in self._follow and all(job.ended and isinstance(job.ended[-1].outcome, Done) for job in members):
            self._record(self._follow.pop(batch))

    def _follows(self, recorded: Recorded, type_: str, payload: Any, **more: Any) -> None:
        child, _ = self._record(Submission(type_, payload, **{"queue": recorded.queue, "lane": recorded.lane, **more}))
        recorded.children.append(child.id)


def _facts(recorded: Recorded, state: str) -> Dict[str, Any]:
    return {"id": recorded.id, "type": recorded.type, "state": state}


def _has(payload: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict) and isinstance(payload, dict):
        return all(key in payload and _has(payload[key], value) for key, value in wanted.items())
    return bool(payload == wanted)


def _status(fake: _Fake, id_: str, queue: Optional[str]) -> Optional[Status]:
    recorded = next((job for job in fake.jobs if job.id == id_ and job.queue == (queue or fake.queue)), None)
    if recorded is None:
        return None
    if not recorded.ended:
        return Status(id_, "scheduled" if {"delay_ms", "run_at_ms"} & recorded.fields.keys() else "waiting", recorded.type)
    last = recorded.ended[-1]
    if isinstance(last.outcome, Done):
        result = last.outcome._fields().get("result")
        return Status(id_, "done", recorded.type, result=None if result is None else json.dumps(result), children=tuple(recorded.children))
    if isinstance(last.outcome, (Drop, Snooze)):
        return Status(id_, "cancelled" if isinstance(last.outcome, Drop) else "scheduled", recorded.type, error=str(last.outcome.reason))
    return Status(id_, "dead", recorded.type, error=last.error)


class _SyncFake(_Fake):
    def run(self) -> List[Ended]:
        """Runs the jobs that were recorded and not run, in their order and whatever their delays, and what follows from them.

        A job that fails is tried again as often as its own ``max_attempts`` says. Returns how each attempt ended.
        """
        ended: List[Ended] = []
        while True:
            recorded = self._next_attempt()
            if recorded is None:
                return ended
            has_more = True
            while has_more:
                ended.append(run(recorded.job(len(recorded.ended) + 1), self.worker))
                has_more = self._take(recorded, ended[-1])

    def status(self, id: str, *, queue: Optional[str] = None) -> Optional[Status]:  # noqa: A002
        """What became of a job."""
        return _status(self, id, queue)

    def wait(self, id: str, timeout: Any = None, *, queue: Optional[str] = None) -> Status:  # noqa: A002
        """Runs all jobs, and returns what became of this one."""
        self.run()
        return _found(self, id, queue)

    def result(self, id: str, *, queue: Optional[str] = None) -> Any:  # noqa: A002
        """The result of a job that has been run."""
        status = self.status(id, queue=queue)
        return None if status is None else status.value()

    def enqueue_many(self, submissions: Iterable[Submission]) -> List[str]:
        """Records jobs and returns their ids."""
        return [self._record(submission)[0].id for submission in submissions]

    def batch(self, name: str, members: Iterable[Submission], follow: Submission) -> List[str]:
        """Records the members of a batch. :meth:`run` records the job that follows once all of them have succeeded."""
        return self._batch(name, members, follow)


class _AsyncFake(_Fake):
    async def run(self) -> List[Ended]:
        """See :meth:`FakeProducer.run`."""
        ended: List[Ended] = []
        while True:
            recorded = self._next_attempt()
            if recorded is None:
                return ended
            has_more = True
            while has_more:
                ended.append(await arun(recorded.job(len(recorded.ended) + 1), self.worker))
                has_more = self._take(recorded, ended[-1])

    async def status(self, id: str, *, queue: Optional[str] = None) -> Optional[Status]:  # noqa: A002
        """What became of a job."""
        return _status(self, id, queue)

    async def wait(self, id: str, timeout: Any = None, *, queue: Optional[str] = None) -> Status:  # noqa: A002
        """Runs all jobs, and returns what became of this one."""
        await self.run()
        return _found(self, id, queue)

    async def result(self, id: str, *, queue: Optional[str] = None) -> Any:  # noqa: A002
        """The result of a job that has been run."""
        status = _status(self, id, queue)
        return None if status is None else status.value()

    async def enqueue_many(self, submissions: Iterable[Submission]) -> List[str]:
        """Records jobs and returns their ids."""
        return [self._record(submission)[0].id for submission in submissions]

    async def batch(self, name: str, members: Iterable[Submission], follow: Submission) -> List[str]:
        """See :meth:`FakeProducer.batch`."""
        return self._batch(name, members, follow)


def _found(fake: _Fake, id_: str, queue: Optional[str]) -> Status:
    status = _status(fake, id_, queue)
    if status is None:
        raise LookupError(f"no job {id_} was enqueued")
    return status


class FakeProducer(_SyncFake):
    """In place of :class:`streamfleet.Producer`."""

    def enqueue(self, type: str, payload: Any = None, **options: "Unpack[Options]") -> str:  # noqa: A002
        """Records a job and returns its id."""
        return self.send(self.submission(type, payload, **options))

    def send(self, submission: Submission) -> str:
        """Records a job and returns its id."""
        if submission.unique is not None:
            raise ValueError("a unique key is a lock, and a plain XADD cannot take it: use FakeHttp, as the program uses Http or Cli")
        return self._record(submission)[0].id


class AsyncFakeProducer(_AsyncFake):
    """In place of :class:`streamfleet.AsyncProducer`."""

    async def enqueue(self, type: str, payload: Any = None, **options: "Unpack[Options]") -> str:  # noqa: A002
        """Records a job and returns its id."""
        return await self.send(self.submission(type, payload, **options))

    async def send(self, submission: Submission) -> str:
        """Records a job and returns its id."""
        return self._record(submission)[0].id


class FakeHttp(_SyncFake):
    """In place of :class:`streamfleet.Http` and :class:`streamfleet.Cli`: an id is accepted once. Unique keys are noted, and keep nothing out."""

    is_once = True

    def enqueue(self, type: str, payload: Any = None, **options: "Unpack[Options]") -> Accepted:  # noqa: A002
        """Records a job, unless its id is known."""
        return self.send(self.submission(type, payload, **options))

    def send(self, submission: Submission, **_: Any) -> Accepted:
        """Records a job, unless its id is known."""
        return _accepted(self, *self._record(submission))


class AsyncFakeHttp(_AsyncFake):
    """In place of :class:`streamfleet.AsyncHttp` and :class:`streamfleet.AsyncCli`."""

    is_once = True

    async def enqueue(self, type: str, payload: Any = None, **options: "Unpack[Options]") -> Accepted:  # noqa: A002
        """Records a job, unless its id is known."""
        return await self.send(self.submission(type, payload, **options))

    async def send(self, submission: Submission, **_: Any) -> Accepted:
        """Records a job, unless its id is known."""
        return _accepted(self, *self._record(submission))


def _accepted(fake: _Fake, recorded: Recorded, is_new: bool) -> Accepted:
    status = _found(fake, recorded.id, recorded.queue)
    return Accepted(recorded.id, status.state, is_new)
