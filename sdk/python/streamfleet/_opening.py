"""Decodes the payload of a job before its handler sees it, if the job has the header ``codec``."""

import json
from typing import TYPE_CHECKING, Any, Optional

from ._outcome import Retry

if TYPE_CHECKING:
    from ._worker import Job
    from .codecs import Codecs

_HEADER = "codec"


class Opening:
    """What a worker does with payloads that are encoded. It imports nothing of codecs unless a job needs it."""

    def __init__(self) -> None:
        self.codecs: "Optional[Codecs]" = None

    @staticmethod
    def concerns(job: "Job[Any]") -> bool:
        """Whether the job may have such a payload."""
        return _HEADER in job.headers

    def open(self, job: "Job[Any]") -> None:
        """Decodes the payload, so that the job is as if it had never been encoded.

        :raises Retry: it cannot be decoded, or not yet. Rules about exceptions do not change that.
        """
        from .codecs._codecs import CodecError
        from .codecs._header import parsed

        header = job.headers[_HEADER]
        if self.codecs is None:
            # A header of this name may mean something else.
            if job.encoding != "raw" or parsed(header) is None:
                return
            raise Retry(f"the payload is encoded ({header}), and this program has no codecs: call streamfleet.use_codecs(…)")
        try:
            encoding, payload = self.codecs.decode_payload(job.type, header, _bytes(job.payload), job.encoding)
        except CodecError as error:
            raise Retry(f"CodecError: {error}") from error
        job.payload, job.encoding = _value(payload, encoding), encoding
        del job.headers[_HEADER]


def _bytes(payload: Any) -> bytes:
    return payload if isinstance(payload, bytes) else b""


def _value(payload: bytes, encoding: str) -> Any:
    """What a handler gets of such a payload: the same as if the worker had read it."""
    try:
        if encoding == "json":
            return json.loads(payload.decode("utf-8")) if payload else None
        if encoding == "msgpack":
            from .codecs._msgpack import as_json

            return json.loads(as_json(payload))
    except (ValueError, RecursionError):
        pass
    return payload
