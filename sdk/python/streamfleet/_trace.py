"""The W3C trace context of jobs. OpenTelemetry is used if the program has imported its API, and is no dependency."""

import contextlib
import contextvars
import re
import sys
from typing import TYPE_CHECKING, Any, Iterator, Optional, Tuple

if TYPE_CHECKING:
    from ._worker import Job

#: The job that this code runs for.
JOB: "contextvars.ContextVar[Optional[Job[Any]]]" = contextvars.ContextVar("streamfleet_job", default=None)

#: The header that carries the trace state.
TRACESTATE = "tracestate"

#: The W3C standard: a member of a trace state, and the most characters and members of one.
_MEMBER = re.compile(r"([a-z0-9][a-z0-9_\-*/@]{0,255})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]")
_MOST_CHARACTERS = 512
_MOST_MEMBERS = 32

_PARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


def tracestate(text: Optional[str]) -> Optional[str]:
    """A trace state that keeps the standard. Another one is left out as a whole."""
    if text is None or len(text) > _MOST_CHARACTERS:
        return None
    members = [member.strip(" \t") for member in text.split(",")]
    found = [_MEMBER.fullmatch(member) for member in members if member]
    keys = {member.group(1) for member in found if member}
    return text if 0 < len(found) == len(keys) <= _MOST_MEMBERS else None


def current() -> Tuple[Optional[str], Optional[str]]:
    """The trace parent and the trace state of this code: those of OpenTelemetry's current span, or else of the job that it runs for."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is not None:
        span = trace.get_current_span().get_span_context()
        if span.is_valid:
            return f"00-{span.trace_id:032x}-{span.span_id:016x}-{int(span.trace_flags):02x}", tracestate(span.trace_state.to_header())
    job = JOB.get()
    return (None, None) if job is None else (job.traceparent, job.tracestate)


@contextlib.contextmanager
def continued(job: "Job[Any]") -> Iterator[None]:
    """Makes the spans of this code children of the attempt."""
    trace, context = sys.modules.get("opentelemetry.trace"), sys.modules.get("opentelemetry.context")
    parent = _PARENT.fullmatch(job.traceparent or "")
    if trace is None or context is None or parent is None:
        yield
        return
    trace_id, span_id, flags = (int(part, 16) for part in parent.groups())
    state = trace.TraceState.from_header([job.tracestate] if job.tracestate else [])
    span = trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=trace.TraceFlags(flags), trace_state=state)
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(span)))
    try:
        yield
    finally:
        context.detach(token)
