"""What a program does besides its handlers: before an attempt, and after its end."""

import asyncio
import contextlib
import inspect
import sys
from typing import Any, Awaitable, Callable, Dict, Iterator, List, Literal, Optional

from ._outcome import Cancelled, Fatal, Outcome, Retry, Unknown, described

#: An attempt begins; it has ended without a failure; it has failed and the job runs again; it has failed for good.
Event = Literal["before", "after", "retry", "failed"]
EVENTS = ("before", "after", "retry", "failed")

#: What code that a program runs may end with; other exceptions end the program.
ENDINGS = (Exception, SystemExit, Cancelled, asyncio.CancelledError)

#: Reasons of the worker to end an attempt that are no failure of the job.
_NO_FAILURE = ("cancelled", "shutdown", "lost")

Listener = Callable[..., Any]


class Listeners:
    """Functions by event. What they raise is reported on standard error, and changes nothing."""

    def __init__(self) -> None:
        self._listeners: Dict[str, List[Listener]] = {event: [] for event in EVENTS}

    def of(self, event: str) -> List[Listener]:
        """The listeners of an event, to which others may be added."""
        if event not in self._listeners:
            raise ValueError(f"there is no event {event!r}: use {', '.join(EVENTS[:-1])} or {EVENTS[-1]}")
        return self._listeners[event]

    def first_async(self) -> Optional[Listener]:
        every = (listener for listeners in self._listeners.values() for listener in listeners)
        return next(filter(inspect.iscoroutinefunction, every), None)

    def tell(self, event: str, *facts: Any) -> None:
        """Calls the listeners of a program without async handlers."""
        for listener in self._listeners[event]:
            with _reported(event, facts):
                listener(*facts)

    async def tell_async(self, event: str, *facts: Any) -> None:
        for listener in self._listeners[event]:
            with _reported(event, facts):
                returned = listener(*facts)
                if isinstance(returned, Awaitable):
                    await returned


@contextlib.contextmanager
def _reported(event: str, facts: Any) -> Iterator[None]:
    try:
        yield
    except ENDINGS as error:
        with contextlib.suppress(OSError, ValueError):
            print(f"a listener of {event!r} failed for the job {facts[0].id}: {described(error)}", file=sys.stderr, flush=True)


def end_of(outcome: Outcome, *, is_last: bool, interrupted: Optional[str]) -> str:
    """The event of an attempt's end. ``is_last``: a failure leaves no attempt. ``interrupted``: why the worker ended it."""
    if isinstance(outcome, Fatal):
        return "failed"
    if not isinstance(outcome, (Retry, Unknown)) or interrupted in _NO_FAILURE:
        return "after"
    return "failed" if is_last else "retry"
