"""Payloads that are encoded: the vectors that all packages share, keys, stores, and what a program of handlers makes of them."""

import base64
import hashlib
import json
import os
import pathlib
import tempfile
import time
import unittest

try:
    import cryptography  # noqa: F401
except ImportError:
    raise unittest.SkipTest("cryptography is not installed") from None

from streamfleet import Producer, Submission
from streamfleet.codecs import S3, CodecError, Codecs, Directory, Keys
from streamfleet.codecs._header import parsed
from streamfleet.codecs._msgpack import as_json
from tests.pool import Program

VECTORS_FILE = pathlib.Path(__file__).parents[3] / "tests" / "codecs" / "vectors.json"
VECTORS = json.loads(VECTORS_FILE.read_text(encoding="utf-8"))
KEYS = Keys({name: base64.b64decode(key) for name, key in VECTORS["keys"].items()})


class Claims(dict):
    def put(self, sha256, data):
        self[sha256] = data

    def get(self, sha256, most):
        return super().get(sha256)


def vector_claims():
    claims = Claims()
    for name, data in VECTORS["claims"].items():
        claims[name] = bytes(data["zeros"]) if isinstance(data, dict) else base64.b64decode(data)
    return claims


def decoded(codecs, vector):
    return codecs.decode_payload(vector["type"], vector["header"], base64.b64decode(vector["payload"]), vector["encoding"])


class Vectors(unittest.TestCase):
    codecs = Codecs(keys=KEYS, claims=vector_claims(), max_bytes=VECTORS["max_bytes"])

    def test_every_vector_is_opened(self):
        for vector in VECTORS["opened"]:
            with self.subTest(vector["what"]):
                opened = self.codecs.decode_payload(vector["type"], vector["header"], base64.b64decode(vector["payload"]))
                self.assertEqual(opened, (vector["encoding"], base64.b64decode(vector["plain"])))

    def test_every_wrong_payload_is_refused_with_the_reason(self):
        for vector in VECTORS["refused"]:
            with self.subTest(vector["what"]), self.assertRaises(CodecError) as caught:
                decoded(self.codecs, vector)
            self.assertIn(vector["error"], str(caught.exception), vector["what"])

    def test_messagepack_is_json_if_it_loses_nothing(self):
        for vector in VECTORS["packed"]:
            data = base64.b64decode(vector["bytes"])
            with self.subTest(data.hex()):
                if vector["json"] is None:
                    self.assertRaises(ValueError, as_json, data)
                else:
                    self.assertEqual(json.loads(as_json(data)), json.loads(vector["json"]))

    def test_a_header_is_read_only_if_it_follows_the_grammar(self):
        for text in VECTORS["headers"]:
            self.assertEqual(str(parsed(text)), text)
        for text in VECTORS["no_headers"]:
            self.assertIsNone(parsed(text), text)


class Encoding(unittest.TestCase):
    def test_each_combination_comes_back_as_it_was(self):
        texts = [b"", b"1", os.urandom(5000), b"naive " * 5000]
        for keys in (None, KEYS):
            for compress in (False, True):
                for claims in (None, Claims()):
                    codecs = Codecs(keys=keys, compress=compress, claims=claims, claim_above=2000)
                    for text in texts:
                        header, data = codecs.encode_payload("a", "raw", text)
                        back = ("raw", data) if header is None else codecs.decode_payload("a", header, data)
                        self.assertEqual(back, ("raw", text))

    def test_nothing_is_done_that_gains_nothing(self):
        codecs = Codecs(compress=True, claims=Claims())
        for text in (b"x" * 1024, os.urandom(5000)):
            self.assertEqual(codecs.encode_payload("a", "json", text), (None, text))
        header, data = codecs.encode_payload("a", "json", b"x" * 1025)
        self.assertEqual((header, len(data) < 100), ("json gzip", True))

    def test_the_first_key_encrypts_and_all_decrypt(self):
        old = Codecs(keys=Keys({"a": bytes(32)}))
        new = Codecs(keys=Keys({"b": bytes([1] * 32), "a": bytes(32)}))
        header, data = old.encode_payload("t", "json", b"1")
        self.assertEqual(header, "json aes-256-gcm;key=a")
        self.assertEqual(new.decode_payload("t", header, data), ("json", b"1"))
        header, data = new.encode_payload("t", "json", b"1")
        with self.assertRaisesRegex(CodecError, "encrypted with the key b, which this program does not have"):
            old.decode_payload("t", header, data)

    def test_two_ciphertexts_of_the_same_text_differ(self):
        codecs = Codecs(keys=KEYS)
        self.assertNotEqual(codecs.encode_payload("t", "json", b"1"), codecs.encode_payload("t", "json", b"1"))

    def test_a_job_is_encoded_once_and_may_be_large_before(self):
        claims = Claims()
        codecs = Codecs(claims=claims)
        job = codecs.submission("a", b"x" * (9 * 1024 * 1024), headers={"tenant": "9"}, id="i")
        fields = dict(job.fields)
        self.assertEqual((fields[b"payload"], fields[b"encoding"], fields[b"h.tenant"], fields[b"id"]), (b"", b"raw", b"9", b"i"))
        self.assertEqual(fields[b"h.codec"].decode(), f"raw claim;sha256={next(iter(claims))}")
        with self.assertRaisesRegex(ValueError, "encode a job once"):
            codecs.encode(job)
        with self.assertRaisesRegex(ValueError, "belongs to codecs"):
            codecs.submission("a", 1, headers={"codec": "json gzip"})
        with self.assertRaisesRegex(ValueError, "a debounce"):
            codecs.submission("a", 1, unique="k", unique_mode="debounce")
        with self.assertRaisesRegex(ValueError, "the most is 8388608"):
            Codecs().submission("a", b"x" * (9 * 1024 * 1024))

    def test_a_producer_encodes_every_job(self):
        class Client:
            sent = []

            def execute_command(self, *command):
                self.sent.append(command)
                return b"1-0"

        producer = Producer(Client(), codecs=Codecs(keys=KEYS))
        producer.enqueue("a", {"secret": 1})
        producer.send(Submission("a", {"secret": 1}))
        for command in Client.sent:
            self.assertNotIn(b"secret", b"".join(part if isinstance(part, bytes) else part.encode() for part in command))
            self.assertIn(b"json aes-256-gcm;key=2026-11", command)

    def test_a_store_that_fails_sends_nothing(self):
        class Broken:
            def put(self, sha256, data):
                raise OSError("the disk is full")

        with self.assertRaisesRegex(CodecError, "so nothing was sent: the disk is full"):
            Codecs(claims=Broken(), claim_above=0).encode_payload("a", "json", b"1")


class KeyFiles(unittest.TestCase):
    def test_keys_are_read_from_a_file_and_a_variable(self):
        key, other = base64.b64encode(bytes(32)).decode(), base64.b64encode(bytes([1] * 32)).decode()
        with tempfile.NamedTemporaryFile("w", suffix=".keys") as file:
            file.write(f"# new\n2026-11:{key}\n  # old\n\n2026-10:{other}\n")
            file.flush()
            keys = Keys.from_file(file.name)
        self.assertEqual((keys.names(), keys.get("2026-10")), (["2026-11", "2026-10"], bytes([1] * 32)))
        os.environ["STREAMFLEET_TEST_KEYS"] = f"b:{other},a:{key}"
        self.addCleanup(os.environ.pop, "STREAMFLEET_TEST_KEYS")
        self.assertEqual(Keys.from_env("STREAMFLEET_TEST_KEYS").first, "b")

    def test_no_error_and_no_repr_shows_a_key(self):
        secret = base64.b64encode(b"canary-canary-canary-canary-cana").decode()
        for text, why in [
            (secret, "item 1 must be name:key"),
            (f"a:{secret}x", "item 1 is not base64"),
            (f"a:{secret[:-4]}", "must have 32 bytes, not"),
            (f"a b:{secret}", "item 1 must be name:key"),
            (f"-a:{secret}", "the name of a key"),
            (f"a:{secret} a:{secret}", "two keys"),
            ("", "has no key"),
        ]:
            os.environ["STREAMFLEET_TEST_KEYS"] = text
            with self.assertRaisesRegex(ValueError, why) as caught:
                Keys.from_env("STREAMFLEET_TEST_KEYS")
            self.assertNotIn(secret[:10], str(caught.exception))
        os.environ["STREAMFLEET_TEST_KEYS"] = f"a:{secret}"
        self.assertEqual(repr(Keys.from_env("STREAMFLEET_TEST_KEYS")), "Keys(a)")
        del os.environ["STREAMFLEET_TEST_KEYS"]
        with self.assertRaisesRegex(ValueError, "STREAMFLEET_TEST_KEYS is not set"):
            Keys.from_env("STREAMFLEET_TEST_KEYS")


class Stores(unittest.TestCase):
    def test_a_directory_keeps_bytes_by_their_hash_and_renews_their_time(self):
        with tempfile.TemporaryDirectory() as folder:
            store, data = Directory(folder), b"bytes"
            name = hashlib.sha256(data).hexdigest()
            self.assertIsNone(store.get(name, 100))
            store.put(name, data)
            file = pathlib.Path(folder, name[:2], name[2:4], name)
            self.assertEqual((file.read_bytes(), store.get(name, 100)), (data, data))
            os.utime(file, (1, 1))
            store.put(name, data)
            self.assertGreater(file.stat().st_mtime, time.time() - 60)
            file.write_bytes(b"cut")
            store.put(name, data)
            self.assertEqual(store.get(name, 100), data)
            self.assertGreater(len(store.get(name, 3)), 3)
            self.assertEqual([path.name for path in file.parent.iterdir()], [name])

    def test_nothing_but_a_hash_becomes_a_place(self):
        for wrong in ("", "../" * 30, "A" * 64, "0" * 63, "0" * 64 + "\n"):
            for store in (Directory("/nowhere"), S3(None, "bucket")):
                with self.assertRaisesRegex(ValueError, "64 hexadecimal digits"):
                    store.get(wrong, 1)
                with self.assertRaisesRegex(ValueError, "64 hexadecimal digits"):
                    store.put(wrong, b"")

    def test_a_bucket_of_boto3(self):
        try:
            import boto3
            from moto import mock_aws
        except ImportError:
            self.skipTest("boto3 and moto are not installed")
        with mock_aws():
            client = boto3.client("s3", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
            client.create_bucket(Bucket="payloads")
            store, data = S3(client, "payloads", "jobs/"), b"bytes"
            name = hashlib.sha256(data).hexdigest()
            self.assertIsNone(store.get(name, 100))
            store.put(name, data)
            self.assertEqual((store.get(name, 100), store.get(name, 3)), (data, data[:4]))
            self.assertEqual(client.list_objects_v2(Bucket="payloads")["Contents"][0]["Key"], f"jobs/{name}")
            with self.assertRaises(client.exceptions.NoSuchBucket):
                S3(client, "other").get(name, 100)


HANDLERS = """
    import base64, os
    import streamfleet
    from streamfleet.codecs import Codecs, Keys

    keys = Keys({"2026-11": bytes(range(32)), "2026-10": bytes(range(32, 64))})
    if os.environ.get("USES") == "1":
        streamfleet.use_codecs(Codecs(keys=keys))
    streamfleet.errors({Exception: "fatal"})
    seen = []

    @streamfleet.on("before")
    def before(job):
        seen.append(job.payload)

    @streamfleet.job("mail.send")
    ASYNC def send(job):
        return {"payload": job.payload if not isinstance(job.payload, bytes) else list(job.payload), "encoding": job.encoding,
                "headers": job.headers, "seen": seen[-1] == job.payload}

    streamfleet.run()
"""


class Handlers(unittest.TestCase):
    def program(self, uses="1", is_async=False):
        return Program(HANDLERS.replace("ASYNC ", "async " if is_async else ""), env={"USES": uses})

    def ask(self, program, payload, header=None, encoding="raw", **more):
        headers = {"tenant": "9"} if header is None else {"tenant": "9", "codec": header}
        more = {"payload_base64": base64.b64encode(payload).decode()} if isinstance(payload, bytes) else {"payload": payload}
        program.job("mail.send", headers=headers, encoding=encoding, **more)
        return program.read()

    def test_a_handler_sees_no_difference(self):
        codecs = Codecs(keys=KEYS, compress=True)
        for is_async in (False, True):
            with self.program(is_async=is_async) as program:
                program.hello()
                plain = self.ask(program, {"to": "ann"}, encoding="json")["result"]
                for value in ({"to": "ann"}, None, ["é" * 3000]):
                    data = b"" if value is None else json.dumps(value).encode()
                    header, sealed = codecs.encode_payload("mail.send", "json", data)
                    answer = self.ask(program, sealed, header)
                    self.assertEqual(answer.get("result"), {**plain, "payload": value}, answer)
                header, sealed = codecs.encode_payload("mail.send", "msgpack", bytes.fromhex("81a2746fa3616e6e"))
                self.assertEqual(self.ask(program, sealed, header)["result"]["payload"], {"to": "ann"})
                header, sealed = codecs.encode_payload("mail.send", "msgpack", b"\xc4\x01\xff")
                self.assertEqual(self.ask(program, sealed, header)["result"]["payload"], [196, 1, 255])
                header, sealed = codecs.encode_payload("mail.send", "raw", b"\xff")
                self.assertEqual(self.ask(program, sealed, header)["result"]["payload"], [255])
                header, sealed = codecs.encode_payload("mail.send", "json", b"{no json")
                self.assertEqual(self.ask(program, sealed, header)["result"]["encoding"], "json")

    def test_what_cannot_be_decoded_is_retried_whatever_the_rules_say(self):
        for is_async in (False, True):
            with self.program(is_async=is_async) as program:
                program.hello()
                answer = self.ask(program, b"x" * 40, "json aes-256-gcm;key=2027-01")
                self.assertEqual(answer["outcome"], "retry")
                self.assertNotIn("classes", answer)
                self.assertIn("encrypted with the key 2027-01, which this program does not have", answer["error"])
                self.assertEqual(self.ask(program, b"x", "json zip")["outcome"], "retry")
                self.assertEqual(self.ask(program, {"to": 1}, encoding="json")["outcome"], "done")

    def test_a_program_without_codecs_says_so_and_leaves_other_headers_alone(self):
        with self.program(uses="0") as program:
            program.hello()
            answer = self.ask(program, b"x", "json gzip")
            self.assertEqual((answer["outcome"], "use_codecs" in answer["error"]), ("retry", True))
            self.assertEqual(self.ask(program, b"x", "h264")["result"]["headers"]["codec"], "h264")


if __name__ == "__main__":
    unittest.main()
