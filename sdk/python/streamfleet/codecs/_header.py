"""The header ``codec``: what was done to the bytes of a payload, in order. The grammar is in docs/wire.md."""

import re
from typing import NamedTuple, Optional

NAME = "codec"
MAX_BYTES = 256

KEY_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_HEADER = re.compile(
    rf"(?P<encoding>json|msgpack|raw)(?=.)(?P<gzip> gzip)?(?: aes-256-gcm;key=(?P<key>{KEY_NAME}))?(?: claim;sha256=(?P<claim>[0-9a-f]{{64}}))?",
    re.ASCII,
)


class Header(NamedTuple):
    """What a header says."""

    encoding: str
    gzip: bool
    #: The name of the key.
    key: Optional[str]
    #: The hash of the bytes that are stored apart.
    claim: Optional[str]

    def sealed(self) -> str:
        """The header up to the encryption, which the ciphertext is bound to."""
        words = [self.encoding]
        if self.gzip:
            words.append("gzip")
        if self.key is not None:
            words.append(f"aes-256-gcm;key={self.key}")
        return " ".join(words)

    def __str__(self) -> str:
        return self.sealed() if self.claim is None else f"{self.sealed()} claim;sha256={self.claim}"


def parsed(text: str) -> Optional[Header]:
    """Reads a header; None if it breaks the grammar."""
    found = _HEADER.fullmatch(text) if len(text) <= MAX_BYTES else None
    if found is None:
        return None
    return Header(found["encoding"], found["gzip"] is not None, found["key"], found["claim"])
