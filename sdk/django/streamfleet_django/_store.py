"""What Django remembers of a task: a hash of its own for each result, beside the record that the fleet keeps of the job.

Its field ``input`` has what was enqueued, ``attempt:N`` an attempt, and ``value`` what the task returned.
"""

import json
from typing import Any, Dict, List, Mapping, Optional

#: The states of a record that are results. All others are tasks that wait.
RUNNING, SUCCEEDED, FAILED = "running", "done", ("dead", "cancelled")


class Store:
    """The hashes of one Redis."""

    def __init__(self, client: Any, namespace: str, seconds: int) -> None:
        self._client = client
        self._namespace = namespace
        #: How long a result is kept after the task was enqueued, became due, or ended.
        self._seconds = seconds

    def _key(self, id: str) -> str:  # noqa: A002
        return f"{self._namespace}-django:{id}"

    def add(self, id: str, told: Mapping[str, Any], later: float = 0) -> None:  # noqa: A002
        """Notes what is about to be enqueued."""
        self._set(id, {"input": told}, later)

    def begin(self, id: str, attempt: int, told: Mapping[str, Any]) -> None:  # noqa: A002
        """Notes that an attempt begins."""
        self._set(id, {f"attempt:{attempt}": told})

    def end(self, id: str, attempt: int, told: Mapping[str, Any], value: Any = None) -> None:  # noqa: A002
        """Notes how an attempt ended, before the fleet learns it."""
        fields = {f"attempt:{attempt}": told}
        self._set(id, fields if told.get("error") else {**fields, "value": value})

    def _set(self, id: str, fields: Mapping[str, Any], later: float = 0) -> None:  # noqa: A002
        with self._client.pipeline(transaction=False) as pipe:
            pipe.hset(self._key(id), mapping={name: json.dumps(value) for name, value in fields.items()})
            pipe.expire(self._key(id), self._seconds + max(0, round(later)))
            pipe.execute()

    def get(self, id: str) -> "Optional[Kept]":  # noqa: A002
        """What is known about a result; None if it never existed, or is too old."""
        found = {_text(name): json.loads(value) for name, value in self._client.hgetall(self._key(id)).items()}
        return Kept(found) if "input" in found else None


class Kept:
    """What is kept of a result."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self.input: Dict[str, Any] = found["input"]
        self.value = found.get("value")
        numbers = sorted(int(name[8:]) for name in found if name.startswith("attempt:"))
        #: The attempts, oldest first. One whose program was killed has not ended.
        self.attempts: List[Dict[str, Any]] = [found[f"attempt:{number}"] for number in numbers]

    def state(self) -> Optional[str]:
        """How the last attempt ended, if the fleet has forgotten the job."""
        last = self.attempts[-1] if self.attempts else {}
        if "finished" not in last:
            return None
        return "dead" if last.get("error") else "done"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else value.decode()
