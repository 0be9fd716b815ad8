"""How an attempt ends, and what an answer says about an error."""

import base64
import builtins
import json
import math
import os
import traceback
from datetime import timedelta
from typing import Any, Dict, List, Optional, Sequence, Union

#: The worker reads no longer line, if it does not say.
MAX_LINE_BYTES = 16 * 1024 * 1024
MIN_LINE_BYTES = 1024
#: The bytes of a line besides a text, and how many bytes JSON takes for a byte of a text.
AROUND_TEXT = 400
ESCAPED = 6
#: The fleet cuts errors at this length.
MAX_ERROR_BYTES = 4096
#: The worker looks at no more names of classes, and at no longer ones.
MAX_CLASSES = 32
MAX_CLASS_BYTES = 200
#: An error names no more exceptions of the same attempt.
MAX_OTHERS = 3
MAX_CAUSE_BYTES = 600

#: Python 3.11 and later have it.
_GROUP: Any = getattr(builtins, "BaseExceptionGroup", ())

Seconds = Union[int, float, timedelta]


class Outcome(Exception):
    """How an attempt ended. A handler returns one, or raises it."""

    #: Why the attempt failed; None if it did not fail.
    error: object = None

    def _fields(self) -> Dict[str, Any]:
        raise NotImplementedError


class Done(Outcome):
    """The job is done. ``result`` is a JSON value, or bytes."""

    def __init__(self, result: Any = None) -> None:
        super().__init__(result)
        self.result = result

    def _fields(self) -> Dict[str, Any]:
        fields: Dict[str, Any] = {"outcome": "done"}
        if isinstance(self.result, (bytes, bytearray, memoryview)):
            fields["result_base64"] = base64.b64encode(bytes(self.result)).decode("ascii")
        elif self.result is not None:
            fields["result"] = self.result
        return fields


class Retry(Outcome):
    """The attempt failed. Without a ``delay`` in seconds, the next one is due by the type's policy."""

    #: The names of an exception's classes, if the configuration of the worker is to decide.
    _classes: Sequence[str] = ()

    def __init__(self, error: object, delay: Optional[Seconds] = None) -> None:
        super().__init__(error)
        self.error = error
        self.delay_ms = None if delay is None else delay_ms_of(delay)

    def _fields(self) -> Dict[str, Any]:
        fields: Dict[str, Any] = {"outcome": "retry", "error": cut(str(self.error))}
        if self.delay_ms is not None:
            fields["delay_ms"] = self.delay_ms
        if self._classes:
            fields["classes"] = _fitting(self._classes, Limits.line - AROUND_TEXT - _size(fields["error"]))
        return fields


class Unknown(Outcome):
    """The attempt failed, and nobody knows whether the work was done: an answer was lost.

    A ``once`` step becomes unknown, and a person decides. Every other job is tried again, as after :class:`Retry`.
    """

    def __init__(self, error: object) -> None:
        super().__init__(error)
        self.error = error

    def _fields(self) -> Dict[str, Any]:
        return {"outcome": "retry", "unknown": True, "error": cut(str(self.error))}


class Fatal(Outcome):
    """The job can never succeed: it becomes a dead letter at once."""

    def __init__(self, error: object) -> None:
        super().__init__(error)
        self.error = error

    def _fields(self) -> Dict[str, Any]:
        return {"outcome": "fatal", "error": cut(str(self.error))}


class Snooze(Outcome):
    """Not now: the job runs again after ``delay`` seconds, and no attempt is spent."""

    def __init__(self, delay: Seconds, reason: Optional[str] = None) -> None:
        super().__init__(delay, reason)
        self.delay_ms = delay_ms_of(delay)
        self.reason = reason

    def _fields(self) -> Dict[str, Any]:
        fields: Dict[str, Any] = {"outcome": "snooze", "delay_ms": self.delay_ms}
        if self.reason is not None:
            fields["reason"] = cut(str(self.reason))
        return fields


class Drop(Outcome):
    """The job is no longer wanted: it ends as cancelled, with the reason, and is not a failure."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def _fields(self) -> Dict[str, Any]:
        return {"outcome": "drop", "reason": cut(str(self.reason))}


class Cancelled(BaseException):
    """Interrupts a synchronous handler whose job was cancelled or timed out.

    It is not an Exception, so that ``except Exception`` does not hide it; ``finally`` and ``with`` clean up.
    """


def delay_ms_of(delay: Seconds) -> int:
    if isinstance(delay, timedelta):
        delay = delay.total_seconds()
    if isinstance(delay, bool) or not isinstance(delay, (int, float)):
        raise TypeError(f"a delay must be a number of seconds or a timedelta, not {type(delay).__name__}")
    if not math.isfinite(delay) or delay < 0:
        raise ValueError(f"a delay must be finite and not negative, not {delay}")
    return round(delay * 1000)


class Limits:
    """What the worker has said about lines."""

    line = MAX_LINE_BYTES
    text = MAX_LINE_BYTES

    @classmethod
    def set(cls, max_line: Any) -> None:
        is_number = isinstance(max_line, int) and not isinstance(max_line, bool)
        cls.line = max(MIN_LINE_BYTES, max_line) if is_number else MAX_LINE_BYTES
        cls.text = (cls.line - AROUND_TEXT) // ESCAPED


def cut(text: str, most: int = MAX_ERROR_BYTES) -> str:
    """Cuts a text to what its reader keeps, and replaces what is not Unicode."""
    most = min(most, Limits.text)
    data = text.encode("utf-8", "replace")
    return data.decode("utf-8") if len(data) <= most else data[: most - 4].decode("utf-8", "ignore") + " …"


def severity(outcome: Outcome) -> int:
    """Which one counts if an attempt ended with several."""
    return next((rank for rank, class_ in ((3, Unknown), (2, Fatal), (1, Retry)) if isinstance(outcome, class_)), 0)


def leaves_of(error: BaseException) -> List[BaseException]:
    """What was raised in the tasks of a ``asyncio.TaskGroup``, which wraps them in a group; otherwise the exception itself."""
    if not isinstance(error, _GROUP):
        return [error]
    return [leaf for inner in error.exceptions for leaf in leaves_of(inner)]


def described(error: BaseException, others: Sequence[BaseException] = ()) -> str:
    """The error first, because dead letters are grouped by it, others beside it, and then the end of the traceback."""
    heads = [head_of(error), *(f"and {head_of(other)}" for other in others[:MAX_OTHERS])]
    head = cut("\n".join(heads), MAX_ERROR_BYTES // 2)
    causes = [cut(text, MAX_CAUSE_BYTES) for text in _causes(error)]
    kept: List[str] = []
    room = MAX_ERROR_BYTES - sum(len(text.encode("utf-8", "replace")) + 1 for text in (head, *causes)) - 64
    for frame in reversed(_frames(error)):
        size = len(frame.encode("utf-8", "replace")) + 1
        if size > room:
            break
        kept.insert(0, frame)
        room -= size
    return "\n".join([head, *kept, *causes])


def _frames(error: BaseException) -> List[str]:
    """Its traceback, without the frames of this package: an exception may come from there, and its handler is above."""
    own = os.path.dirname(os.path.abspath(__file__)) + os.sep
    frames = traceback.extract_tb(error.__traceback__)
    return [text.rstrip() for text in traceback.format_list([frame for frame in frames if not frame.filename.startswith(own)])]


def _causes(error: BaseException) -> List[str]:
    """The exceptions that led to this one, each with the place where it was raised."""
    told: List[str] = []
    seen = {id(error)}
    while len(told) < MAX_OTHERS:
        cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if cause is None or id(cause) in seen:
            break
        seen.add(id(cause))
        how = "caused by" if cause is error.__cause__ else "while handling"
        told.append("\n".join([f"{how} {head_of(cause)}", *_frames(cause)[-1:]]))
        error = cause
    return told


def head_of(error: BaseException) -> str:
    """The class of an exception and its message."""
    try:
        return "".join(traceback.format_exception_only(type(error), error)).strip()
    except Exception:
        return type(error).__name__


def class_names(error: BaseException) -> List[str]:
    """The class of an exception and its ancestors, the nearest first, with the names that its traceback has."""
    names = []
    for class_ in type(error).__mro__[:-1]:
        module = class_.__module__
        name = class_.__qualname__ if module in ("builtins", "__main__") else f"{module}.{class_.__qualname__}"
        if len(name.encode("utf-8", "replace")) <= MAX_CLASS_BYTES:
            names.append(name)
    return names[:MAX_CLASSES]


def _fitting(names: Sequence[str], room: int) -> List[str]:
    """The first of these names, as many as fit into a line that has room for this many bytes."""
    kept = []
    for name in names:
        room -= _size(name) + len(",")
        if room < 0:
            break
        kept.append(name)
    return kept


def _size(text: str) -> int:
    """The bytes that JSON takes for a text."""
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace"))
