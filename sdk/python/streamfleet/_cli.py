"""Submits jobs by the program ``streamfleet enqueue``, which offers what a plain XADD cannot.

The program is started without a shell. The payload goes to its standard input; everything else is an argument.
"""

import asyncio
import contextlib
import json
import os
import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ._line import as_date, check_line, line_of
from ._producer import JsonDefault, Seconds, Submission, _checked_id, _milliseconds, _queue_name, checked_submission

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._producer import Options

#: Linux gives a program at most 2 MiB of arguments and variables together.
MAX_ARGUMENT_BYTES = 1024 * 1024

_EXIT_USAGE = 2
_EXIT_FULL = 7
_EXIT_NOT_STARTED = (126, 127)
#: How the errors of the program begin if it has sent nothing, and the job is not to blame.
_NOTHING_SENT = ("error: the configuration has ", "error: cannot reach redis ")


class Refused(Exception):
    """The job was not accepted, and is not to blame: the queue is full, Redis cannot be reached, the configuration is wrong, or
    the program could not be started. Try again later."""


class Unconfirmed(Exception):
    """Nobody knows whether the job was accepted. If it has an id, send it again."""


@dataclass(frozen=True)
class Accepted:
    """What became of a submission by :class:`Cli`."""

    #: The job: the new one, or the one that existed.
    id: str
    state: str
    #: False if the id was known, or another job holds the unique key: nothing was submitted.
    is_new: bool
    #: The job that this one replaces.
    replaced: Optional[str] = None
    #: Whether the job that holds the key got the new payload and time.
    is_debounced: bool = False


class _Base:
    def __init__(
        self,
        command: Sequence[str] = ("streamfleet",),
        *,
        queue: str = "default",
        env: Optional[Mapping[str, str]] = None,
        timeout: Seconds = 90,
        json_default: Optional[JsonDefault] = None,
    ) -> None:
        if isinstance(command, (str, bytes)) or not command:
            raise TypeError("command must be a list: the program and its global arguments, such as --config")
        self.command = list(command)
        self.queue = _queue_name(queue)
        self.env = dict(env or {})
        self.timeout = _milliseconds("timeout", timeout, 1) / 1000
        self.json_default = json_default

    def submission(self, type: str, payload: Any = None, **options: "Unpack[Options]") -> Submission:  # noqa: A002
        """Creates a submission with this object's ``json_default``."""
        if self.json_default is not None:
            options.setdefault("json_default", self.json_default)
        return Submission(type, payload, **options)

    def _call(self, submission: Submission, idempotent_for: Optional[Seconds], durability: Optional[str]) -> Tuple[List[str], bytes]:
        """The program with its arguments, and its standard input."""
        arguments, payload = _arguments(submission, self.queue)
        if idempotent_for is not None:
            arguments.append(f"--idempotent-for={_milliseconds('idempotent_for', idempotent_for)}ms")
        if durability is not None:
            arguments.append(f"--durability={durability}")
        return self._checked(arguments), payload

    def _batch_call(self, name: str, members: Iterable[Submission], follow: Submission) -> Tuple[List[str], bytes]:
        if {b"delay_ms", b"run_at_ms"} & dict(checked_submission(follow).fields).keys():
            raise ValueError("the job that follows a batch cannot have a delay")
        queue = follow.queue or self.queue
        lines = []
        for member in map(checked_submission, members):
            if (member.queue or queue) != queue:
                raise ValueError(f"a batch has one queue, and this one has {queue!r} and {member.queue!r}")
            lines.append(line_of(member))
        if not lines:
            raise ValueError("a batch needs a member")
        arguments = ["enqueue", "--bulk", f"--queue={queue}", f"--batch={_checked_id('batch', name, 100).decode()}", f"--follow={line_of(follow).decode()}", "--output=json"]
        return self._checked(arguments), b"\n".join(lines)

    def _checked(self, arguments: List[str]) -> List[str]:
        if any("\0" in argument for argument in arguments):
            raise ValueError("streamfleet enqueue takes no text with a NUL")
        size = sum(len(argument.encode("utf-8")) + 1 for argument in arguments)
        if size > MAX_ARGUMENT_BYTES:
            raise ValueError(f"the headers and other options have {size} bytes; streamfleet enqueue takes {MAX_ARGUMENT_BYTES}")
        return [*self.command, *arguments]

    def _environment(self) -> Dict[str, str]:
        return {**os.environ, **self.env}

    def _not_started(self, error: OSError) -> Refused:
        return Refused(f"the program {self.command[0]} could not be started: {error}")

    def _too_slow(self) -> Unconfirmed:
        return Unconfirmed(f"{self.command[0]} did not end within {self.timeout:g} s")

    def _told(self, code: int, output: bytes, errors: bytes) -> Dict[str, Any]:
        error = errors.decode("utf-8", "replace").strip()
        if error.startswith(_NOTHING_SENT):
            raise Refused(error)
        if code == _EXIT_USAGE:
            # Without what only helps somebody who has typed the command.
            raise ValueError(re.split(r"\n\n(?:Usage:|For more)", error)[0])
        if code == _EXIT_FULL:
            raise Refused(error)
        if code in _EXIT_NOT_STARTED:
            raise Refused(f"the program {self.command[0]} could not be started")
        try:
            told = json.loads(output) if code == 0 else None
        except ValueError:
            told = None
        if not isinstance(told, dict):
            raise Unconfirmed(f"{self.command[0]} ended with code {code}: {error}")
        return told


def _accepted(told: Mapping[str, Any]) -> Accepted:
    is_debounced = told.get("debounced", False)
    return Accepted(told["id"], told["state"], not (told["existing"] or is_debounced), told.get("replaced"), is_debounced)


def _ids(told: Mapping[str, Any]) -> List[str]:
    return list(told["ids"])


def _arguments(submission: Submission, queue: str) -> Tuple[List[str], bytes]:
    fields = dict(submission.fields)
    tracking = fields.pop(b"tracking", None)
    check_line(fields, tracking)
    arguments = ["enqueue", fields.pop(b"type").decode(), f"--queue={submission.queue or queue}", f"--lane={submission.lane}"]
    payload = fields.pop(b"payload", b"")
    if payload:
        # By standard input, because an argument has at most 128 KiB, and everybody on the machine can read it.
        arguments.append("-")
    if tracking is not None:
        arguments.append("--track")
    for name, value in fields.items():
        if name.startswith(b"h."):
            if b"=" in name:
                raise ValueError(f"streamfleet enqueue takes no header whose name has a '=': {name[2:]!r}")
            arguments.append(f"--header={(name[2:] + b'=' + value).decode('utf-8')}")
        elif name in (b"run_at_ms", b"expires_at_ms"):
            arguments.append(f"--{'at' if name == b'run_at_ms' else 'expires-at'}={as_date(value)}")
        elif name.endswith(b"_ms"):
            arguments.append(f"--{name[:-3].decode()}={value.decode()}ms")
        else:
            arguments.append(f"--{name.decode().replace('_', '-')}={value.decode('utf-8')}")
    for option, given in (("", submission.unique), ("-scope", submission.unique_scope), ("-mode", submission.unique_mode)):
        if given is not None:
            arguments.append(f"--unique{option}={given}")
    return [*arguments, "--output=json"], payload


class Cli(_Base):
    """Submits jobs by the program ``streamfleet enqueue``: ids that are accepted once, unique keys, limits, durability.

    Each call starts the program, which takes some milliseconds. Other users of the machine can see the arguments of
    programs, which are all options of a job, but not its payload.

    :param command: the program and its global arguments, such as ``--config``.
    :param env: variables besides those of this process, such as ``STREAMFLEET__REDIS__URL``.
    :param timeout: after how many seconds the program is killed.
    """

    def enqueue(
        self,
        type: str,  # noqa: A002
        payload: Any = None,
        **options: "Unpack[Options]",
    ) -> Accepted:
        """Submits a job; see :class:`Submission` for the options.

        :raises ValueError: the job breaks a rule; nothing was submitted.
        :raises Refused: nothing was submitted.
        :raises Unconfirmed: nobody knows whether it was.
        """
        return self.send(self.submission(type, payload, **options))

    def send(
        self, submission: Submission, *, idempotent_for: Optional[Seconds] = None, durability: Optional[str] = None
    ) -> Accepted:
        """Submits one submission.

        :param idempotent_for: for how long the id is remembered at least, in seconds.
        :param durability: ``memory``, ``replicas:N`` or ``aof``.
        """
        return _accepted(self._run(*self._call(submission, idempotent_for, durability)))

    def batch(self, name: str, members: Iterable[Submission], follow: Submission) -> List[str]:
        """Opens a batch: submits its members, and when all of them have succeeded, the job that follows.

        Returns the ids of the members: ``<name>.<number>``, unless they have others. After an error, call it again with the
        same members in the same order: none is accepted twice. See docs/callbacks.md.

        :raises ValueError: a job breaks a rule; nothing was submitted.
        :raises Refused: nothing was submitted.
        :raises Unconfirmed: some members may have been submitted.
        """
        return _ids(self._run(*self._batch_call(name, members, follow)))

    def _run(self, call: List[str], data: bytes) -> Dict[str, Any]:
        try:
            ended = subprocess.run(call, input=data, capture_output=True, env=self._environment(), timeout=self.timeout)
        except subprocess.TimeoutExpired:
            raise self._too_slow() from None
        except OSError as error:
            raise self._not_started(error) from error
        return self._told(ended.returncode, ended.stdout, ended.stderr)


class AsyncCli(_Base):
    """The same for asyncio."""

    async def enqueue(
        self,
        type: str,  # noqa: A002
        payload: Any = None,
        **options: "Unpack[Options]",
    ) -> Accepted:
        """See :meth:`Cli.enqueue`."""
        return await self.send(self.submission(type, payload, **options))

    async def send(
        self, submission: Submission, *, idempotent_for: Optional[Seconds] = None, durability: Optional[str] = None
    ) -> Accepted:
        """See :meth:`Cli.send`."""
        return _accepted(await self._run(*self._call(submission, idempotent_for, durability)))

    async def batch(self, name: str, members: Iterable[Submission], follow: Submission) -> List[str]:
        """See :meth:`Cli.batch`."""
        return _ids(await self._run(*self._batch_call(name, members, follow)))

    async def _run(self, call: List[str], data: bytes) -> Dict[str, Any]:
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(*call, stdin=pipe, stdout=pipe, stderr=pipe, env=self._environment())
        except OSError as error:
            raise self._not_started(error) from error
        try:
            output, errors = await asyncio.wait_for(process.communicate(data), self.timeout)
        except asyncio.TimeoutError:
            raise self._too_slow() from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        return self._told(process.returncode or 0, output, errors)
