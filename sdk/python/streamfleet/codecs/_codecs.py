"""Encodes payloads before they are sent, and decodes them before a handler gets them."""

import gzip
import hashlib
import os
import zlib
from typing import TYPE_CHECKING, Any, List, Optional, Tuple

from ._claims import Store
from ._header import NAME, Header, parsed
from ._keys import Keys

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._producer import Options, Submission

#: What the encryption adds: the nonce in front, the tag behind.
NONCE_BYTES, TAG_BYTES = 12, 16
_CHUNK = 64 * 1024


class CodecError(Exception):
    """A payload cannot be encoded or decoded. The job is tried again by the type's policy: a key or an object may arrive."""


class Codecs:
    """What is done to payloads: they are compressed, then encrypted, then stored apart, as far as this says so.

    Everything that is configured is decoded, and so is what was only compressed. A payload without the header ``codec`` is left as it is.

    :param keys: encrypts every payload with the first key.
    :param compress: compresses payloads from ``compress_above`` bytes on, if that makes them smaller.
    :param claims: a :class:`Directory`, an :class:`S3` or a store of yours, for what has more than ``claim_above`` bytes.
    :param max_bytes: the most bytes that a payload may have, stored apart or decompressed.
    """

    def __init__(
        self,
        *,
        keys: Optional[Keys] = None,
        compress: bool = False,
        claims: Optional[Store] = None,
        compress_above: int = 1024,
        claim_above: int = 256 * 1024,
        max_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        if keys is not None and not isinstance(keys, Keys):
            raise TypeError("keys must be Keys: Keys.from_file(…), Keys.from_env(…) or Keys({name: 32 bytes})")
        if min(compress_above, claim_above) < 0 or max_bytes < 1:
            raise ValueError("compress_above and claim_above must not be negative, and max_bytes must be at least 1")
        if keys is not None:
            _cipher(b"\0" * 32)
        self.keys, self.compress, self.claims = keys, compress, claims
        self.compress_above, self.claim_above, self.max_bytes = compress_above, claim_above, max_bytes

    def submission(self, type: str, payload: Any = None, **options: "Unpack[Options]") -> "Submission":  # noqa: A002
        """A job with an encoded payload, for what has no option ``codecs``: ``outbox``, :class:`Cli` and :class:`Http`."""
        from .._producer import _Unencoded

        return self.encode(_Unencoded(type, payload, **options))

    def encode(self, submission: "Submission") -> "Submission":
        """The same job with its payload encoded. A producer with these codecs does so itself."""
        fields = dict(submission.fields)
        if b"h." + NAME.encode() in fields:
            raise ValueError(f"the header {NAME} belongs to codecs: leave it out, and encode a job once")
        if submission.unique_mode == "debounce":
            raise ValueError("a debounce replaces the payload of a job, and not its header: it does not work with codecs")
        encoding = fields.get(b"encoding", b"json").decode()
        header, data = self.encode_payload(fields[b"type"].decode(), encoding, fields.get(b"payload", b""))
        return submission._encoded(header, data)

    def encode_payload(self, type: str, encoding: str, payload: bytes) -> Tuple[Optional[str], bytes]:  # noqa: A002
        """Returns the header and the bytes to send with the encoding raw. Without a header, nothing was done."""
        if len(payload) > self.max_bytes:
            raise ValueError(f"the payload has {len(payload)} bytes; the most is {self.max_bytes}")
        header, data = Header(encoding, False, None, None), payload
        if self.compress and len(data) > self.compress_above:
            smaller = gzip.compress(data, mtime=0)
            if len(smaller) < len(data):
                header, data = header._replace(gzip=True), smaller
        if self.keys is not None:
            header = header._replace(key=self.keys.first)
            data = _sealed(self.keys, type, header, data, os.urandom(NONCE_BYTES))
        if self.claims is not None and len(data) > self.claim_above:
            header = header._replace(claim=self._stored(self.claims, data))
            data = b""
        return (None, payload) if header == (encoding, False, None, None) else (str(header), data)

    @staticmethod
    def _stored(store: Store, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        try:
            store.put(sha256, data)
        except Exception as error:
            raise CodecError(f"the store does not take the payload sha256 {sha256}, so nothing was sent: {error}") from error
        return sha256

    def decode_payload(self, type: str, header: str, payload: bytes, encoding: str = "raw") -> Tuple[str, bytes]:  # noqa: A002
        """Returns the encoding of the plain payload, and its bytes.

        :param encoding: the encoding that the job itself names.
        :raises CodecError: it cannot be decoded, or not yet.
        """
        told = parsed(header)
        if told is None:
            raise CodecError(f"the header {NAME} is not one that this version reads: {header[:100]!r}")
        if encoding != "raw":
            raise CodecError(f"the job has the header {NAME}, so its encoding must be raw, not {encoding[:20]}")
        data = payload if told.claim is None else self._claimed(told.claim, payload)
        if told.key is not None:
            data = self._opened(type, told, data)
        if told.gzip:
            data = _inflated(data, self.max_bytes)
        return told.encoding, data

    def _claimed(self, sha256: str, payload: bytes) -> bytes:
        if payload:
            raise CodecError("the payload is stored apart, but the job has bytes of its own")
        if self.claims is None:
            raise CodecError(f"the payload is stored apart, sha256 {sha256}, and this program has no store: Codecs(claims=…)")
        most = self.max_bytes + NONCE_BYTES + TAG_BYTES
        try:
            data = self.claims.get(sha256, most)
        except Exception as error:
            raise CodecError(f"the store cannot be read for the payload sha256 {sha256}: {error}") from error
        if data is None:
            raise CodecError(f"the store has no payload sha256 {sha256}: it was deleted, or is not there yet")
        if len(data) > most:
            raise CodecError(f"the stored payload sha256 {sha256} has more than {most} bytes")
        if hashlib.sha256(data).hexdigest() != sha256:
            raise CodecError(f"the stored payload sha256 {sha256} has other bytes: it was changed")
        return data

    def _opened(self, type: str, told: Header, data: bytes) -> bytes:  # noqa: A002
        name = str(told.key)
        key = None if self.keys is None else self.keys.get(name)
        if key is None:
            raise CodecError(f"the payload is encrypted with the key {name}, which this program does not have")
        if len(data) < NONCE_BYTES + TAG_BYTES:
            raise CodecError("the encrypted payload is too short")
        from cryptography.exceptions import InvalidTag

        try:
            opened: bytes = _cipher(key).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], _bound(type, told))
        except InvalidTag:
            raise CodecError(f"the payload does not fit the key {name}, the type {type} and the header: it was changed or moved") from None
        return opened


def _cipher(key: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise ImportError('encryption needs the package cryptography: pip install "streamfleet[encryption]"') from None
    return AESGCM(key)


def _bound(type: str, header: Header) -> bytes:  # noqa: A002
    """What a ciphertext is bound to."""
    return f"{type}\n{header.sealed()}".encode()


def _sealed(keys: Keys, type: str, header: Header, data: bytes, nonce: bytes) -> bytes:  # noqa: A002
    sealed: bytes = _cipher(keys.get(str(header.key)) or b"").encrypt(nonce, data, _bound(type, header))
    return nonce + sealed


def _inflated(data: bytes, most: int) -> bytes:
    """Decompresses one member of gzip, and never more than this many bytes."""
    inflating = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    parts: List[bytes] = []
    size, rest = 0, data
    try:
        while not inflating.eof:
            part = inflating.decompress(rest, min(_CHUNK, most + 1 - size))
            rest = inflating.unconsumed_tail
            size += len(part)
            if size > most:
                raise CodecError(f"the decompressed payload has more than {most} bytes")
            if not part and not rest and not inflating.eof:
                raise CodecError("the compressed payload is cut off")
            parts.append(part)
    except zlib.error as error:
        raise CodecError(f"the compressed payload is not gzip: {error}") from None
    if inflating.unused_data or rest:
        raise CodecError("bytes follow the compressed payload")
    return b"".join(parts)
