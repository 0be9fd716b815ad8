"""Payloads that are compressed, encrypted or stored apart: docs/codecs.md.

A producer encodes with ``Producer(client, codecs=codecs)``, and a program of handlers decodes with ``streamfleet.use_codecs(codecs)``.
Encryption needs the package ``cryptography``.
"""

from ._claims import S3, Directory, Store
from ._codecs import CodecError, Codecs
from ._keys import Keys

__all__ = ["S3", "CodecError", "Codecs", "Directory", "Keys", "Store"]
