"""The work of a job in a database, done exactly once."""

import json
import re
import secrets
from typing import Any, Callable, Optional, Tuple

from ._outcome import Outcome
from ._producer import check_numbers
from ._sql import Database
from ._worker import Job

#: The longest result, as JSON.
MAX_RESULT_BYTES = 64 * 1024

_FENCE = re.compile(r"([0-9]{1,19})-([0-9]{1,19})")
_STEP = re.compile(r"[^\x00-\x1f\x7f-\x9f]{0,64}")
_PENDING = b"pending "
_KEY = "queue = ? AND job_id = ? AND step = ?"
_INSERT = "INSERT INTO streamfleet_effects (queue, job_id, step, fence_ms, fence_seq, result) VALUES (?, ?, ?, ?, ?, ?) "
_SELECT = (
    "SELECT result, CASE WHEN fence_ms > ? OR (fence_ms = ? AND fence_seq > ?) THEN 1 ELSE 0 END AS newer "
    f"FROM streamfleet_effects WHERE {_KEY}"
)
_UPDATE = f"UPDATE streamfleet_effects SET result = ? WHERE {_KEY}"

_Key = Tuple[str, str, str]


class Superseded(Exception):
    """A later attempt of the job has done the work, so this one is outdated: nothing that it reports counts any more."""


def once(connection: Any, job: "Job[Any]", work: Callable[[Any], Any], step: str = "") -> Any:
    """Runs ``work(connection)`` in a transaction of its own, and commits; returns what ``work`` returned, as JSON has it.

    If an attempt of this job has done so before, it returns the result of that time and does not run ``work``. If ``work``
    raises, it rolls back. The note that the work is done is a row of the table ``streamfleet_effects``. All attempts and
    replays of a job share it.

    If the connection breaks during the commit, nobody knows whether the work is done. Let the exception pass: the job is
    retried, and gets the result if it is.

    ``connection`` is one of sqlite3, psycopg, psycopg2, PyMySQL or mysqlclient, and no transaction is open on it. What ``work``
    returns must fit into 64 KiB of JSON. ``step`` says which work of the job this is, if a handler has several: up to 64
    characters, together with the name of the job's own step and a slash.

    :raises Superseded: a later attempt has done the work: this one should end.
    :raises RuntimeError: a transaction is open, or ``work`` has ended the one that it ran in.
    :raises TypeError: the connection is none of those, or JSON cannot express the result. Nothing was committed.
    :raises ValueError: the result is too long, or the job has no fence, or the step is too long. Nothing was committed.
    """
    database = Database(connection)
    key, fence = _key(job, step), _fence(job)
    if database.is_open():
        raise RuntimeError(
            "a transaction is open on this connection: commit it before once(), which begins and commits its own. "
            "A connection of sqlite3 with autocommit=False always has one: open it with autocommit=True"
        )
    try:
        database.begin()
        result = _before(database, key, fence)
        if result is None:
            result = _done(database, work, key)
        database.commit()
    except BaseException:
        try:
            database.rollback()
        except Exception:  # noqa: S110
            # The connection is gone, and the transaction with it. The caller gets the first error.
            pass
        raise
    return json.loads(result)


def _before(database: Database, key: _Key, fence: Tuple[int, int]) -> Optional[bytes]:
    """Inserts the row, for which a second attempt waits until this one has ended. Returns the result of an earlier attempt."""
    is_mysql = database.dialect == "mysql"
    conflict = "ON DUPLICATE KEY UPDATE queue = queue" if is_mysql else "ON CONFLICT (queue, job_id, step) DO NOTHING"
    pending = _PENDING + secrets.token_hex(16).encode()
    is_new = database.run(_INSERT + conflict, [*key, *fence, pending]) == 1
    # A connection of MySQL with the flag FOUND_ROWS, as that of Django, also counts a row that was there.
    if is_new and not is_mysql:
        return None
    row = database.row(_SELECT, [fence[0], *fence, *key])
    if row is None:
        raise RuntimeError(f"the row of the job {key[1]} in streamfleet_effects has gone: something deletes rows while jobs run")
    result = b"null" if row[0] is None else row[0].encode() if isinstance(row[0], str) else bytes(row[0])
    if result == pending:
        return None
    if int(row[1]) == 1:
        raise Superseded(f"a later attempt of the job {key[1]} has done this already, so this attempt is outdated and should end")
    if result.startswith(_PENDING):
        raise RuntimeError(
            f"an attempt of the job {key[1]} has committed a part of its work on its own, and the rest is missing: see what is "
            "done, then delete its row in streamfleet_effects, or set its result"
        )
    return result


def _done(database: Database, work: Callable[[Any], Any], key: _Key) -> bytes:
    result = _encoded(work(database.connection))
    # Otherwise the result would be committed without the work, or the work without the result.
    if not database.is_open() or database.run(_UPDATE, [result, *key]) != 1:
        raise RuntimeError(
            "the work has ended its transaction, so it may happen again: in once(), do not commit, roll back, or change tables"
        )
    return result


def _encoded(result: Any) -> bytes:
    if isinstance(result, Outcome):
        name = type(result).__name__
        raise TypeError(f"the work has returned {name}, which would be committed: raise it to roll back, or return it after once()")
    try:
        text = json.dumps(result, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        check_numbers(text)
        data = text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"JSON cannot express what the work returned: {error}") from error
    if len(data) > MAX_RESULT_BYTES:
        raise ValueError(f"what the work returned has {len(data)} bytes as JSON; at most {MAX_RESULT_BYTES} are kept, so return less")
    return data


def _key(job: "Job[Any]", step: str) -> _Key:
    # Each step of a job is a job of its own here, as for Idempotency-Key.
    name = "/".join(filter(None, [job.step, step]))
    if not _STEP.fullmatch(name):
        raise ValueError(
            "a step must have at most 64 characters without control characters, together with the name of the job's own step: "
            f"{name[:200]!r}"
        )
    if not job.id or not job.queue:
        raise ValueError("the job has no id or no queue, so nothing tells its work from that of others")
    return job.queue, job.id, name


def _fence(job: "Job[Any]") -> Tuple[int, int]:
    match = _FENCE.fullmatch(job.fence or "")
    numbers = (int(match[1]), int(match[2])) if match else (2**63, 0)
    if max(numbers) >= 2**63:
        raise ValueError(
            f"the fence of the job is {job.fence!r} and not of the form 1700000000000-0, so nothing tells old attempts from new "
            "ones: its worker is too old, or a test has made it (Job(…, fence='17-0'))"
        )
    return numbers
