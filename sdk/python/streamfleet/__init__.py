"""Handlers and producers for streamfleet, in Python.

A handler needs no dependency: the worker, a program of its own, starts this process and gives it jobs over a pipe. A
producer uses your own redis-py client, synchronous or asyncio. The README beside this package has a quick start.
"""

from typing import TYPE_CHECKING, Any

from . import outbox
from ._cli import Accepted, AsyncCli, Cli, Refused, Unconfirmed
from ._effects import Superseded, once
from ._errors import Rule
from ._outcome import Cancelled, Done, Drop, Fatal, Outcome, Retry, Snooze, Unknown
from ._producer import (
    AsyncProducer,
    BulkError,
    Gone,
    JobFailed,
    NotEnded,
    NotSent,
    Options,
    Producer,
    Status,
    Submission,
)
from ._version import VERSION
from ._worker import (
    Handler,
    Job,
    LogHandler,
    Worker,
    current_job,
    errors,
    job,
    middleware,
    on,
    run,
    use,
    use_codecs,
)

if TYPE_CHECKING:
    from ._http import AsyncHttp, Batch, Http, Invalid

__version__ = VERSION

__all__ = [
    "Accepted",
    "AsyncCli",
    "AsyncHttp",
    "AsyncProducer",
    "Batch",
    "BulkError",
    "Cancelled",
    "Cli",
    "Done",
    "Drop",
    "Fatal",
    "Gone",
    "Handler",
    "Http",
    "Invalid",
    "Job",
    "JobFailed",
    "LogHandler",
    "NotEnded",
    "NotSent",
    "Options",
    "Outcome",
    "Producer",
    "Refused",
    "Retry",
    "Rule",
    "Snooze",
    "Status",
    "Submission",
    "Superseded",
    "Unconfirmed",
    "Unknown",
    "Worker",
    "current_job",
    "errors",
    "job",
    "middleware",
    "on",
    "once",
    "outbox",
    "run",
    "use",
    "use_codecs",
]


def __getattr__(name: str) -> Any:
    """Most programs with handlers submit nothing over HTTP, and start quicker without the modules that this needs."""
    if name in ("AsyncHttp", "Batch", "Http", "Invalid"):
        from . import _http

        return getattr(_http, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
