"""Jobs that are submitted within a transaction of the application.

A job is a row of the table ``streamfleet_outbox``, which the fleet submits after the commit. If the transaction is rolled back,
there is no job. The connection is one of sqlite3, psycopg, psycopg2, PyMySQL or mysqlclient.
"""

import json
import secrets
import time
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional, Union

from ._producer import Options, Submission, checked_submission
from ._sql import Database

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["add", "add_all"]

#: The most rows, and about the most bytes, of one statement.
_ROWS = 500
_BYTES = 1024 * 1024
_COLUMNS = ("job_id", "queue", "lane", "type", "payload", "encoding", "headers", "run_at_ms", "options")
#: Fields of the entry that have columns of their own.
_OWN = ("type", "payload", "encoding", "id", "delay_ms", "run_at_ms")


def add(
    connection: Any,
    job: Union[str, Submission],
    payload: Any = None,
    *,
    autocommit: bool = False,
    **options: "Unpack[Options]",
) -> str:
    """Adds a job, and returns its id: that of the job, or a random one.

    ``job`` is the type of a job, with a payload and options as for :meth:`Producer.enqueue`, or a :class:`Submission`. A delay
    counts from this call. With ``autocommit``, the connection may be in no transaction: the row is then committed at once.

    :raises RuntimeError: no transaction is open, and the connection commits each statement.
    :raises ValueError: the job breaks a rule of the wire contract. A TypeError too.
    """
    if isinstance(job, str):
        job = Submission(job, payload, **options)
    elif payload is not None or options:
        raise TypeError("a submission has its own payload and options: give them to Submission(…)")
    return add_all(connection, [job], autocommit=autocommit)[0]


def add_all(connection: Any, submissions: Iterable[Submission], *, autocommit: bool = False) -> List[str]:
    """Adds many jobs in few statements, and returns their ids in the same order.

    If it raises, roll back: earlier jobs may have been added. With ``autocommit``, the connection may be in no transaction:
    each statement, of up to 500 jobs, is then committed on its own.

    :raises RuntimeError: no transaction is open, and the connection commits each statement.
    """
    database = Database(connection)
    if not autocommit and not database.joins():
        raise RuntimeError(
            "no transaction is open on this connection, and it commits each statement, so the job would be submitted whatever "
            "happens next: begin one before, or pass autocommit=True if that is meant"
        )
    ids: List[str] = []
    rows: List[List[Any]] = []
    size = 0
    for submission in map(checked_submission, submissions):
        row = _row(submission)
        ids.append(row[0])
        rows.append(row)
        size += submission.size
        if len(rows) >= _ROWS or size >= _BYTES:
            _insert(database, rows)
            rows, size = [], 0
    if rows:
        _insert(database, rows)
    return ids


def _insert(database: Database, rows: List[List[Any]]) -> None:
    places = "(" + ", ".join("?" * len(_COLUMNS)) + ")"
    sql = f"INSERT INTO streamfleet_outbox ({', '.join(_COLUMNS)}) VALUES {', '.join([places] * len(rows))}"
    database.run(sql, [value for row in rows for value in row])


def _row(submission: Submission) -> List[Any]:
    """The values of the columns."""
    if submission.unique is not None:
        raise ValueError("a unique key is a lock, and the outbox cannot take it: submit this job with streamfleet.Http or Cli")
    fields = dict(submission.fields)
    payload = fields.pop(b"payload", b"")
    texts = {name.decode("utf-8"): value.decode("utf-8") for name, value in fields.items()}
    headers = {name[2:]: value for name, value in texts.items() if name.startswith("h.")}
    options = {name: value for name, value in texts.items() if not name.startswith("h.") and name not in _OWN}
    return [
        texts.get("id") or secrets.token_hex(16),
        submission.queue or "default",
        None if submission.lane == "normal" else submission.lane,
        texts["type"],
        payload,
        texts.get("encoding"),
        _object(headers),
        _run_at(texts),
        _object(options),
    ]


def _run_at(texts: Mapping[str, str]) -> Optional[int]:
    times = [int(texts["run_at_ms"])] if "run_at_ms" in texts else []
    if "delay_ms" in texts:
        # The row may wait, so a delay cannot count from its submission. Of both, the later time counts.
        times.append(time.time_ns() // 1_000_000 + int(texts["delay_ms"]))
    return max(times, default=None)


def _object(texts: Dict[str, str]) -> Optional[str]:
    return json.dumps(texts, ensure_ascii=False, separators=(",", ":")) if texts else None
