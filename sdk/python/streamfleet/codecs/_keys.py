"""The keys of encryption, by their names."""

import base64
import binascii
import os
import re
from typing import Dict, Mapping

from ._header import KEY_NAME

KEY_BYTES = 32
MAX_FILE_BYTES = 1024 * 1024

_NAME = re.compile(KEY_NAME, re.ASCII)


class Keys:
    """Keys by their names. The first one encrypts; all decrypt, so that keys can be rotated.

    ``Keys.from_file`` and ``Keys.from_env`` read ``name:key`` items that white space or commas separate, each key in base64:
    ``openssl rand -base64 32`` makes one. In a file, a line that begins with ``#`` is a comment.
    """

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        if not keys:
            raise ValueError("there must be at least one key")
        for name, key in keys.items():
            _check(name, key, "keys")
        self._keys: Dict[str, bytes] = {name: bytes(key) for name, key in keys.items()}
        self.first = next(iter(self._keys))

    @classmethod
    def from_file(cls, path: str) -> "Keys":
        """Reads the keys from a file."""
        with open(path, encoding="utf-8") as file:
            text = file.read(MAX_FILE_BYTES)
        lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
        return cls(_parsed("\n".join(lines), os.fspath(path)))

    @classmethod
    def from_env(cls, name: str) -> "Keys":
        """Reads the keys from a variable of the environment."""
        text = os.environ.get(name)
        if text is None:
            raise ValueError(f"the variable {name} is not set: it must have the keys, as name:base64")
        return cls(_parsed(text, f"the variable {name}"))

    def get(self, name: str) -> "bytes | None":
        """The key of this name."""
        return self._keys.get(name)

    def names(self) -> "list[str]":
        """The names, the one that encrypts first."""
        return list(self._keys)

    def __repr__(self) -> str:
        return f"Keys({', '.join(self._keys)})"


def _check(name: str, key: object, place: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"{place}: the name of a key has 1 to 64 letters, digits, '.', '_' and '-', and begins with a letter or digit")
    if not isinstance(key, (bytes, bytearray)) or len(key) != KEY_BYTES:
        size = len(key) if isinstance(key, (bytes, bytearray)) else 0
        raise ValueError(f"{place}: the key {name} must have {KEY_BYTES} bytes, not {size}: openssl rand -base64 32")


def _parsed(text: str, place: str) -> Dict[str, bytes]:
    """Reads ``name:base64`` items. No error shows a key."""
    keys: Dict[str, bytes] = {}
    for number, item in enumerate(text.replace(",", " ").split(), 1):
        name, colon, data = item.partition(":")
        if not colon:
            raise ValueError(f"{place}: item {number} must be name:key, with the key in base64")
        try:
            key = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raise ValueError(f"{place}: the key of item {number} is not base64: openssl rand -base64 32") from None
        _check(name, key, place)
        if name in keys:
            raise ValueError(f"{place}: there are two keys with the name {name}")
        keys[name] = key
    if not keys:
        raise ValueError(f"{place} has no key: it must have name:key, with the key in base64")
    return keys
