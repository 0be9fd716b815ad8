"""A job as JSON: what the HTTP API takes, and a line of ``streamfleet enqueue --bulk``."""

import json
from datetime import datetime, timedelta, timezone
from typing import Any, Dict, Mapping, Optional

from ._producer import Submission

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def as_date(ms: bytes) -> str:
    return (_EPOCH + timedelta(milliseconds=int(ms))).isoformat(timespec="milliseconds")


def check_line(fields: Mapping[bytes, bytes], tracking: Optional[bytes]) -> None:
    if tracking not in (None, b"all") or b"batch" in fields:
        raise ValueError("the API and streamfleet enqueue have no field batch, and no tracking but all: submit this job with a Producer")
    if fields.get(b"encoding") == b"msgpack":
        raise ValueError("the API and streamfleet enqueue take JSON or raw bytes, and no MessagePack: submit this job with a Producer")


#: The names of fields in a line of ``streamfleet enqueue --bulk``.
_KEYS = {b"delay_ms": "delay", b"timeout_ms": "timeout", b"run_at_ms": "at", b"expires_at_ms": "expires_at"}
_NUMBERS = (b"delay_ms", b"timeout_ms", b"max_attempts")


def line_of(submission: Submission) -> bytes:
    """A job as a line of ``streamfleet enqueue --bulk``."""
    fields = dict(submission.fields)
    tracking, payload = fields.pop(b"tracking", None), fields.pop(b"payload", b"")
    check_line(fields, tracking)
    line: Dict[str, Any] = {"lane": submission.lane}
    headers: Dict[str, str] = {}
    # JSON as it is: numbers of any size stay exact. Outside of texts, which have none, an end of a line is only white space.
    is_raw = fields.get(b"encoding") == b"raw"
    parts = {"payload": payload.replace(b"\r", b" ").replace(b"\n", b" ")} if payload and not is_raw else {}
    for name, value in fields.items():
        if name.startswith(b"h."):
            headers[name[2:].decode()] = value.decode()
        elif name == b"then":
            parts["then"] = value
        elif name in (b"run_at_ms", b"expires_at_ms"):
            line[_KEYS[name]] = as_date(value)
        else:
            line[_KEYS.get(name, name.decode())] = int(value) if name in _NUMBERS else value.decode()
    if is_raw:
        try:
            line["payload"] = payload.decode()
        except UnicodeDecodeError:
            raise ValueError("the API and streamfleet enqueue --bulk take raw payloads only if they are UTF-8: submit this job with a Producer") from None
    if tracking is not None:
        line["track"] = True
    if headers:
        line["headers"] = headers
    for key, given in (("unique", submission.unique), ("unique_scope", submission.unique_scope), ("unique_mode", submission.unique_mode)):
        if given is not None:
            line[key] = given
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode()
    return text[:-1] + b"".join(b',"%s":%s' % (key.encode(), part) for key, part in parts.items()) + b"}"
