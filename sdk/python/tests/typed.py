"""Checked by mypy with --strict, and not run: a program with the types of its payloads. Each ignored error must be one."""

import sqlite3
from typing import Any, Optional, TypedDict

from typing_extensions import assert_type

import streamfleet
from streamfleet import (
    Accepted,
    AsyncHttp,
    AsyncProducer,
    Cli,
    Done,
    Drop,
    Fatal,
    Handler,
    Http,
    Job,
    Options,
    Outcome,
    Producer,
    Rule,
    Status,
    Submission,
    job,
    once,
    outbox,
)
from streamfleet.testing import Ended, FakeProducer, Recorded, run


class Mail(TypedDict):
    to: str


@job("mail.send", max_attempts=4)
def send(job: Job[Mail]) -> dict[str, bool]:
    assert_type(job.payload, Mail)
    job.payload["too"]  # type: ignore[typeddict-item]
    return {"sent": True}


@job("mail.fetch")
async def fetch(job: Job[Mail]) -> int:
    return len(job.payload["to"])


@job("clean")
def clean(job: Job[None]) -> Optional[Outcome]:
    return Drop("nothing to clean")


@job("untyped")
def untyped(job: Job) -> Any:
    return job.payload["anything"]


@job("mail.send", max_attempt=4)  # type: ignore[call-arg]
def misspelled(job: Job) -> None:
    pass


@job("no.job")  # type: ignore[arg-type]
def no_job(payload: str) -> None:
    pass


@streamfleet.middleware
def around(job: Job, call_next: Any) -> Any:
    return call_next(job)


@streamfleet.on("fail")  # type: ignore[arg-type]
def misspelled_event(job: Job[Any], outcome: Outcome) -> None:
    pass


@streamfleet.on("failed")
def failed(job: Job[Any], outcome: Outcome) -> None:
    print(f"{job.id} is dead: {outcome.error}")


assert_type(failed(Job("x"), Fatal("x")), None)
streamfleet.errors({ValueError: "fatal", OSError: 30})
rules: dict[type[BaseException], Rule] = {ValueError: "fatal", OSError: 30}
streamfleet.errors(rules)
options: Options = {"delay": 60}
streamfleet.errors({ValueError: "fatale"})  # type: ignore[dict-item]


async def submit(producer: Producer, later: AsyncProducer, cli: Cli, http: Http) -> None:
    assert_type(send, Handler[Mail, dict[str, bool]])
    assert_type(send.submission({"to": "ann@example.com"}, delay=1), Submission)
    send.submission({"to": 1})  # type: ignore[typeddict-item]
    clean.submission()
    assert_type(send(Job("mail.send", {"to": "ann@example.com"})), dict[str, bool])
    assert_type(await fetch(Job("mail.fetch", Mail(to="ann@example.com"))), int)
    assert_type(clean(Job("clean", None)), Optional[Outcome])

    assert_type(send.enqueue({"to": "ann@example.com"}, producer=producer), str)
    assert_type(await send.enqueue({"to": "ann@example.com"}, producer=later, delay=5), str)
    assert_type(send.enqueue({"to": "ann@example.com"}, producer=cli), Accepted)
    assert_type(send.enqueue({"to": "ann@example.com"}), Any)
    clean.enqueue()
    untyped.enqueue({"anything": 1})
    untyped.enqueue()

    assert_type(send.wait("7", 30, producer=producer), dict[str, bool])
    assert_type(await send.wait("7", 30, producer=later), dict[str, bool])
    assert_type(fetch.wait("7", 30, producer=producer), int)
    assert_type(await fetch.wait("7", 30, producer=later), int)
    assert_type(fetch.wait("7", 30, producer=http), int)
    assert_type(send.wait("7"), Any)
    fetch.wait("7", producer=producer).upper()  # type: ignore[attr-defined]
    send.wait(7, producer=producer)  # type: ignore[call-overload]

    assert_type(send.enqueue({"to": "ann@example.com"}, producer=http), Accepted)
    assert_type(await send.enqueue({"to": "ann@example.com"}, producer=AsyncHttp("http://jobs", "token")), Accepted)
    assert_type(http.run(send.submission({"to": "ann@example.com"}), 30), Status)
    http.enqueue("mail.send", {"to": "ann"}, retries=3)  # type: ignore[call-arg]
    Submission("mail.send", {"to": "ann"}, priority="high")  # type: ignore[arg-type]

    send.enqueue({"to": "ann@example.com"}, producer=producer, tracking="all")
    send.enqueue({"to": "ann@example.com"}, producer=producer, tracking="full")  # type: ignore[call-overload]
    send.enqueue({"too": "ann@example.com"}, producer=producer)  # type: ignore[call-overload]
    send.enqueue({"to": 7})  # type: ignore[call-overload]
    send.enqueue()  # type: ignore[call-overload]
    send.enqueue({"to": "ann@example.com"}, attempts=3)  # type: ignore[call-overload]
    send(Job("mail.send", 7))  # type: ignore[arg-type]


assert_type(Done(1).result, Any)


def test_shop(fake: FakeProducer) -> None:
    streamfleet.use(fake)
    assert_type(fake.enqueue("mail.send", {"to": "ann"}), str)
    assert_type(fake.assert_enqueued("mail.send", {"to": "ann"}), list[Recorded])
    assert_type(fake.run(), list[Ended])
    assert_type(run(Job("mail.send", Mail(to="ann"))), Ended)
    fake.assert_enqueued("mail.send", time=1)  # type: ignore[call-arg]


@job("order.pay")
def pay(job: Job[Mail]) -> str:
    connection = sqlite3.connect("shop.db")
    assert_type(outbox.add(connection, "mail.send", {"to": "ann"}, delay=5, autocommit=True), str)
    assert_type(outbox.add_all(connection, [Submission("mail.send")]), list[str])
    outbox.add(connection, "mail.send", countdown=5)  # type: ignore[call-arg]
    return str(once(connection, job, lambda db: db.total_changes, step="charge"))
