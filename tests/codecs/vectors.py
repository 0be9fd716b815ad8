"""Writes vectors.json: payloads of docs/wire.md with the header `codec`, which the tests of every package read.

It needs the package cryptography, and shares no code with any package.
"""

import base64
import gzip
import hashlib
import json
import pathlib

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MAX_BYTES = 1024 * 1024
KEYS = {"2026-11": bytes(range(32)), "2026-10": bytes(range(32, 64))}
NONCE = bytes(range(100, 112))
TEXT = json.dumps({"to": "ann@example.com", "lines": ["naïve €"] * 90, "big": 12345678901234567}, ensure_ascii=False).encode()
PACKED = bytes.fromhex("81a2746fa3616e6e")
claims = {}


def b64(data):
    return base64.b64encode(data).decode()


def sealed(job_type, words, data, key="2026-11", nonce=NONCE):
    return nonce + AESGCM(KEYS[key]).encrypt(nonce, data, f"{job_type}\n{words}".encode())


def claimed(data):
    name = hashlib.sha256(data).hexdigest()
    claims[name] = b64(data)
    return f"claim;sha256={name}"


def opened(what, job_type, header, payload, encoding, plain):
    return {"what": what, "type": job_type, "header": header, "payload": b64(payload), "encoding": encoding, "plain": b64(plain)}


def refused(what, job_type, header, payload, error, encoding="raw"):
    return {"what": what, "type": job_type, "header": header, "payload": b64(payload), "encoding": encoding, "error": error}


def all_opened():
    packed = gzip.compress(TEXT, mtime=0)
    words = "json gzip aes-256-gcm;key=2026-11"
    both = sealed("mail.send", words, packed)
    only = sealed("mail.send", "json aes-256-gcm;key=2026-11", TEXT)
    yield opened("gzip", "mail.send", "json gzip", packed, "json", TEXT)
    yield opened("gzip of nothing", "a", "raw gzip", gzip.compress(b"", mtime=0), "raw", b"")
    yield opened("encrypted", "mail.send", "json aes-256-gcm;key=2026-11", only, "json", TEXT)
    yield opened("encrypted nothing", "a", "json aes-256-gcm;key=2026-11", sealed("a", "json aes-256-gcm;key=2026-11", b""), "json", b"")
    old = sealed("a", "raw aes-256-gcm;key=2026-10", b"\0\xff", "2026-10")
    yield opened("encrypted with an older key", "a", "raw aes-256-gcm;key=2026-10", old, "raw", b"\0\xff")
    yield opened("MessagePack", "a", "msgpack aes-256-gcm;key=2026-11", sealed("a", "msgpack aes-256-gcm;key=2026-11", PACKED), "msgpack", PACKED)
    yield opened("gzip, then encrypted", "mail.send", words, both, "json", TEXT)
    yield opened("stored apart", "a", f"json {claimed(TEXT)}", b"", "json", TEXT)
    yield opened("gzip, then stored apart", "a", f"json gzip {claimed(packed)}", b"", "json", TEXT)
    yield opened("everything", "mail.send", f"{words} {claimed(both)}", b"", "json", TEXT)


def all_refused():
    words = "json aes-256-gcm;key=2026-11"
    good = sealed("mail.send", words, TEXT)
    packed = gzip.compress(TEXT, mtime=0)
    yield refused("an unknown key", "mail.send", "json aes-256-gcm;key=2027-01", good, "encrypted with the key 2027-01, which")
    yield refused("the wrong key", "mail.send", "json aes-256-gcm;key=2026-10", good, "does not fit the key 2026-10, the type mail.send")
    yield refused("another type", "mail.drop", words, good, "it was changed or moved")
    yield refused("another encoding", "mail.send", "raw aes-256-gcm;key=2026-11", good, "it was changed or moved")
    yield refused("gzip that was not encrypted so", "mail.send", "json gzip aes-256-gcm;key=2026-11", good, "it was changed or moved")
    yield refused("a changed byte", "mail.send", words, good[:40] + bytes([good[40] ^ 1]) + good[41:], "it was changed or moved")
    yield refused("a changed nonce", "mail.send", words, bytes([good[0] ^ 1]) + good[1:], "it was changed or moved")
    yield refused("a cut tag", "mail.send", words, good[:-1], "it was changed or moved")
    yield refused("only a nonce", "mail.send", words, good[:27], "too short")
    yield refused("no bytes", "mail.send", words, b"", "too short")
    yield refused("gzip that is cut off", "a", "json gzip", packed[:-9], "cut off")
    yield refused("gzip without a byte", "a", "json gzip", b"", "cut off")
    yield refused("no gzip", "a", "json gzip", b'{"a":1,"b":"a text that is longer"}', "not gzip")
    yield refused("gzip with another checksum", "a", "json gzip", packed[:-8] + b"\0\0\0\0" + packed[-4:], "not gzip")
    yield refused("a byte behind gzip", "a", "json gzip", packed + b"x", "the compressed payload")
    yield refused("zeros behind gzip", "a", "json gzip", packed + bytes(5), "bytes follow")
    yield refused("two members of gzip", "a", "json gzip", packed + packed, "bytes follow")
    yield refused("a bomb", "a", "json gzip", gzip.compress(b"0" * (MAX_BYTES + 1), mtime=0), f"more than {MAX_BYTES} bytes")
    missing = hashlib.sha256(b"missing").hexdigest()
    yield refused("a missing object", "a", f"json claim;sha256={missing}", b"", f"no payload sha256 {missing}")
    lie = hashlib.sha256(b"what it should be").hexdigest()
    claims[lie] = b64(b"what it is")
    yield refused("an object with other bytes", "a", f"json claim;sha256={lie}", b"", "has other bytes")
    yield refused("an object that is too large", "a", f"json {claimed(bytes(MAX_BYTES + 29))}", b"", f"has more than {MAX_BYTES + 28} bytes")
    yield refused("an object and bytes", "a", f"json {claimed(TEXT)}", b"{}", "has bytes of its own")
    yield refused("an encoding beside the header", "a", "json gzip", packed, "must be raw, not json", "json")
    yield refused("an unknown word", "a", "json zstd", b"", "not one that this version reads")


def packed_values():
    """MessagePack, and the JSON that a handler gets for it; None if JSON would lose something."""
    texts = {"": "null", "c0": "null", "c2": "false", "c3": "true", "00": "0", "7f": "127", "e0": "-32", "ff": "-1", "a0": '""', "90": "[]", "80": "{}"}
    texts.update({"ccff": "255", "cdffff": "65535", "ceffffffff": "4294967295", "cfffffffffffffffff": "18446744073709551615"})
    texts.update({"d080": "-128", "d18000": "-32768", "d17fff": "32767", "d280000000": "-2147483648", "d38000000000000000": "-9223372036854775808"})
    texts.update({"ca3f000000": "0.5", "cb3ff8000000000000": "1.5", "cbc004000000000000": "-2.5"})
    texts.update({"a3616e6e": '"ann"', "a2c3a9": '"é"', "d902610a": '"a\\n"', "da000161": '"a"', "db0000000161": '"a"', "a122": '"\\""'})
    texts.update({"930102c0": "[1,2,null]", "dc000101": "[1]", "dd0000000101": "[1]", "82a16101a16291c3": '{"a":1,"b":[true]}', "de0001a16101": '{"a":1}', "df00000001a16180": '{"a":{}}'})
    lossy = ["c1", "c401ff", "d40100", "810102", "cb7ff8000000000000", "0101", "a1ff", "a5616e6e", "ddffffffff01", "dfffffffff01", "cd01", "91" * 65 + "c0", "81c0c0"]
    deep = "91" * 64 + "c0"
    texts[deep] = "[" * 64 + "null" + "]" * 64
    return [{"bytes": b64(bytes.fromhex(data)), "json": text} for data, text in [*texts.items(), *((each, None) for each in lossy)]]


def headers():
    name = "a" * 64
    good = ["json gzip", "msgpack gzip", "raw gzip", f"json claim;sha256={'0' * 64}", "json aes-256-gcm;key=a", f"raw aes-256-gcm;key={name}"]
    good += ["json aes-256-gcm;key=A.b_c-9", f"msgpack gzip aes-256-gcm;key={name} claim;sha256={'9f' * 32}"]
    bad = ["", "json", "raw", "gzip", "JSON gzip", "json  gzip", " json gzip", "json gzip ", "json\tgzip", "json gzip\n", "json gzip gzip", "cbor gzip"]
    bad += ["json aes-256-gcm", "json aes-256-gcm;key=", "json aes-256-gcm;key=-a", f"json aes-256-gcm;key={name}a", "json aes-256-gcm;key=a/b"]
    bad += ["json aes-256-gcm;key=../../etc/passwd", "json aes-256-gcm;key=é", "json aes-256-gcm;key=a;iv=0", "json aes-256-gcm;key=a gzip"]
    bad += ["json claim", "json claim;sha256=", f"json claim;sha256={'0' * 63}", f"json claim;sha256={'0' * 65}", f"json claim;sha256={'A' * 64}"]
    bad += [f"json claim;sha256=../{'0' * 61}", f"json claim;sha256={'0' * 64} gzip", f"json claim;sha256={'0' * 64};host=a", "json zstd"]
    bad += [f"json claim;sha256={'0' * 64} aes-256-gcm;key=a", "json gzip\0", "json ; gzip", "h264", "json " + "gzip " * 60, "json aes-256-gcm;key=٣"]
    return good, bad


def main():
    good, bad = headers()
    vectors = {
        "about": "docs/wire.md, Encoded payloads. Bytes are base64. `max_bytes` is the bound of decoders. Made by vectors.py",
        "max_bytes": MAX_BYTES,
        "keys": {name: b64(key) for name, key in KEYS.items()},
        "opened": list(all_opened()),
        "refused": list(all_refused()),
        "packed": packed_values(),
        "headers": good,
        "no_headers": bad,
        "claims": claims,
    }
    # A large object is written as what it is made of.
    vectors["claims"] = {name: data if len(data) < 10_000 else {"zeros": len(base64.b64decode(data))} for name, data in claims.items()}
    path = pathlib.Path(__file__).with_name("vectors.json")
    path.write_text(json.dumps(vectors, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
