"""Handlers and producers for streamfleet, in Python.

A handler needs no dependency: the worker, a program of its own, starts this process and gives it jobs over a pipe. A
producer uses your own redis-py client, synchronous or asyncio. The README beside this package has a quick start.
"""

from ._cli import Accepted, AsyncCli, Cli, Refused, Unconfirmed
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
)

__version__ = VERSION

__all__ = [
    "Accepted",
    "AsyncCli",
    "AsyncProducer",
    "BulkError",
    "Cancelled",
    "Cli",
    "Done",
    "Drop",
    "Fatal",
    "Gone",
    "Handler",
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
    "Unconfirmed",
    "Unknown",
    "Worker",
    "current_job",
    "errors",
    "job",
    "middleware",
    "on",
    "run",
    "use",
]
