"""Stores of payloads that are kept apart from Redis, by the SHA-256 of their bytes."""

import contextlib
import os
import re
import secrets
from typing import Any, Optional, Protocol

_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Store(Protocol):
    """A store of your own has these two methods."""

    def put(self, sha256: str, data: bytes) -> None:
        """Stores bytes under their hash. Bytes that are there already get the time of now, so that deletion by age is safe."""

    def get(self, sha256: str, most: int) -> Optional[bytes]:
        """Reads the bytes of a hash; None if there are none. Of more than ``most`` bytes, it may return any that are too many."""


def _checked(sha256: str) -> str:
    """A hash chooses a place, so nothing else may get there."""
    if not _HASH.fullmatch(sha256):
        raise ValueError("a hash must have 64 hexadecimal digits")
    return sha256


class Directory:
    """A folder, which all producers and handlers share: each file is in a folder of a folder, named by the first digits of its hash."""

    def __init__(self, path: "str | os.PathLike[str]") -> None:
        self.path = os.path.abspath(os.fspath(path))

    def _file(self, sha256: str) -> str:
        return os.path.join(self.path, sha256[:2], sha256[2:4], _checked(sha256))

    def put(self, sha256: str, data: bytes) -> None:
        """Stores bytes under their hash."""
        file = self._file(sha256)
        if _touched(file, len(data)):
            return
        folder = os.path.dirname(file)
        os.makedirs(folder, exist_ok=True)
        temporary = os.path.join(folder, f".{secrets.token_hex(8)}.tmp")
        try:
            with open(temporary, "xb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            os.replace(temporary, file)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        _sync(folder)

    def get(self, sha256: str, most: int) -> Optional[bytes]:
        """Reads the bytes of a hash."""
        try:
            with open(self._file(sha256), "rb") as file:
                return file.read(most + 1)
        except FileNotFoundError:
            return None


def _touched(file: str, size: int) -> bool:
    """Renews the time of a file that is whole. A file of another user is replaced."""
    try:
        if os.stat(file).st_size != size:
            return False
        os.utime(file)
        return True
    except (FileNotFoundError, PermissionError):
        return False


def _sync(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class S3:
    """A bucket of S3, or of a store that is compatible, by a client of boto3: ``S3(boto3.client("s3"), "my-bucket")``."""

    def __init__(self, client: Any, bucket: str, prefix: str = "") -> None:
        self.client, self.bucket, self.prefix = client, bucket, prefix

    def put(self, sha256: str, data: bytes) -> None:
        """Stores bytes under their hash. An object that is written again is as old as its last writing."""
        key = self.prefix + _checked(sha256)
        self.client.put_object(Bucket=self.bucket, Key=key, Body=data)

    def get(self, sha256: str, most: int) -> Optional[bytes]:
        """Reads the bytes of a hash."""
        key = self.prefix + _checked(sha256)
        try:
            answer = self.client.get_object(Bucket=self.bucket, Key=key)
        except Exception as error:
            if _is_missing(error):
                return None
            raise
        with contextlib.closing(answer["Body"]) as body:
            data: bytes = body.read(most + 1)
        return data


def _is_missing(error: Exception) -> bool:
    response = getattr(error, "response", None)
    told = response.get("Error", {}) if isinstance(response, dict) else {}
    return told.get("Code") in ("NoSuchKey", "404")
