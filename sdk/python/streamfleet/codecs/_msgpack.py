"""MessagePack as JSON, as the worker gives it to handlers."""

import json
import math
import struct
from typing import Dict, List, Tuple

#: The worker reads no deeper MessagePack.
MAX_DEPTH = 64

#: Numbers by their first byte: how they are packed.
_NUMBERS: Dict[int, str] = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
#: What has a length, by its first byte.
_LENGTHS: Dict[int, Tuple[str, str]] = {0xD9: ("text", ">B"), 0xDA: ("text", ">H"), 0xDB: ("text", ">I"), 0xDC: ("array", ">H"), 0xDD: ("array", ">I"), 0xDE: ("map", ">H"), 0xDF: ("map", ">I")}
_WORDS = {0xC0: "null", 0xC2: "false", 0xC3: "true"}


def as_json(data: bytes) -> str:
    """The JSON of a value.

    :raises ValueError: it is no MessagePack, or JSON would lose something of it: bytes, keys that are not texts, NaN.
    """
    if not data:
        return "null"
    reader = _Reader(data)
    text = reader.value(0)
    if reader.at != len(data):
        raise ValueError("bytes follow the MessagePack")
    return text


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def value(self, depth: int) -> str:
        first = self.take(1)[0]
        if first in _WORDS:
            return _WORDS[first]
        if first <= 0x7F or first >= 0xE0:
            return str(first if first <= 0x7F else first - 256)
        if first in _NUMBERS:
            number = self.number(_NUMBERS[first])
            if not math.isfinite(number):
                raise ValueError("JSON has no such number")
            return repr(number)
        return self.sized(*self.kind(first), depth)

    def kind(self, first: int) -> Tuple[str, int]:
        """What has a length, and the length."""
        if first in _LENGTHS:
            kind, form = _LENGTHS[first]
            return kind, int(self.number(form))
        if first <= 0x8F:
            return "map", first & 15
        if first <= 0x9F:
            return "array", first & 15
        if first <= 0xBF:
            return "text", first & 31
        raise ValueError("JSON has no such value")

    def sized(self, kind: str, length: int, depth: int) -> str:
        if kind == "text":
            return json.dumps(self.take(length).decode("utf-8"))
        if depth >= MAX_DEPTH:
            raise ValueError("it is nested too deep")
        if kind == "array":
            return f"[{','.join(self.value(depth + 1) for _ in self.counted(length))}]"
        pairs: List[str] = []
        for _ in self.counted(length):
            key = self.value(depth + 1)
            if not key.startswith('"'):
                raise ValueError("a key is not a text")
            pairs.append(f"{key}:{self.value(depth + 1)}")
        return f"{{{','.join(pairs)}}}"

    def counted(self, length: int) -> range:
        """Each value has a byte at least, so a hostile length takes no memory."""
        if length > len(self.data) - self.at:
            raise ValueError("the MessagePack is cut off")
        return range(length)

    def number(self, form: str) -> float:
        value: float = struct.unpack(form, self.take(struct.calcsize(form)))[0]
        return value

    def take(self, size: int) -> bytes:
        taken = self.data[self.at : self.at + size]
        if len(taken) != size:
            raise ValueError("the MessagePack is cut off")
        self.at += size
        return taken
