"""Payloads that one language encodes and another decodes, with a real Redis, a real worker and real pools.

    STREAMFLEET_BIN=target/debug/streamfleet STREAMFLEET_CODECS=target/debug/examples/codecs python3 tests/codecs/check.py

It needs redis-server, PHP with redis, Node with the package redis (STREAMFLEET_NODE_CLIENT: its folder), Ruby with the gem redis, and
Python with redis and cryptography. STREAMFLEET_CODECS is the example `codecs` of the Rust library.
"""

import base64
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "sdk" / "python"))

import redis  # noqa: E402

from streamfleet import Producer  # noqa: E402
from streamfleet.codecs import Codecs, Directory, Keys  # noqa: E402

DEADLINE = 60.0
BIN = os.environ["STREAMFLEET_BIN"]
RUST = os.environ.get("STREAMFLEET_CODECS")
KEYS = {"2026-11": b"n" * 32, "2026-10": b"o" * 32, "2027-01": b"f" * 32}


def keys_text(*names):
    return " ".join(f"{name}:{base64.b64encode(KEYS[name]).decode()}" for name in names)


def eventually(what, probe):
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until:
        found = probe()
        if found is not None and found is not False:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {DEADLINE:.0f} s")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


# Each handler answers with what it saw. The keys are read when the program starts.
HANDLERS = {
    "python": (
        "handlers.py",
        """
import hashlib, os, sys
sys.path.insert(0, os.environ["SDK"] + "/python")
import streamfleet
from streamfleet.codecs import Codecs, Directory, Keys
streamfleet.use_codecs(Codecs(keys=Keys.from_file("keys"), claims=Directory("payloads")))
@streamfleet.job("to.python")
def handle(job):
    return {"by": "python", "n": job.payload["n"], "sha256": hashlib.sha256(job.payload["text"].encode()).hexdigest(), "encoding": job.encoding, "headers": job.headers}
streamfleet.run()
""",
    ),
    "php": (
        "handlers.php",
        r"""<?php
require getenv('SDK') . '/php/autoload.php';
use Streamfleet\Codecs;
Streamfleet\Worker::create()
    ->codecs(new Codecs(keys: Codecs\Keys::fromFile('keys'), claims: new Codecs\Directory('payloads')))
    ->on('to.php', fn ($job) => ['by' => 'php', 'n' => $job->payload['n'], 'sha256' => hash('sha256', $job->payload['text']), 'encoding' => $job->encoding, 'headers' => (object) $job->headers])
    ->run();
""",
    ),
    "node": (
        "handlers.js",
        """
const { createHash } = require('node:crypto');
const { Codecs, DirectoryClaims, Keys, Worker } = require(process.env.SDK + '/node');
new Worker()
  .codecs(new Codecs({ keys: Keys.fromFile('keys'), claims: new DirectoryClaims('payloads') }))
  .on('to.node', ({ payload, encoding, headers }) => ({ by: 'node', n: payload.n, sha256: createHash('sha256').update(payload.text).digest('hex'), encoding, headers }))
  .run();
""",
    ),
    "ruby": (
        "handlers.rb",
        """
$LOAD_PATH.unshift(ENV['SDK'] + '/ruby/lib')
require 'streamfleet'
require 'digest'
include Streamfleet
Worker.new
      .codecs(Codecs.new(keys: Codecs::Keys.from_file('keys'), claims: Codecs::Directory.new('payloads')))
      .on('to.ruby') { |job| { by: 'ruby', n: job.payload['n'], sha256: Digest::SHA256.hexdigest(job.payload['text']), encoding: job.encoding, headers: job.headers } }
      .run
""",
    ),
}

# Each submits the JSON of a file as a job of a type, and prints its id. APP_KEYS has the keys.
PRODUCERS = {
    "php": (
        "submit.php",
        r"""<?php
require getenv('SDK') . '/php/autoload.php';
use Streamfleet\Codecs;
$redis = new Redis();
$redis->connect('127.0.0.1', (int) getenv('PORT'));
$codecs = new Codecs(keys: Codecs\Keys::fromEnv('APP_KEYS'), compress: true, claims: new Codecs\Directory('payloads'));
$producer = new Streamfleet\Producer($redis, codecs: $codecs);
echo $producer->enqueue($argv[1], json_decode(file_get_contents($argv[2]), true), tracking: 'all');
""",
    ),
    "node": (
        "submit.js",
        """
const fs = require('node:fs');
const { createClient } = require(process.env.STREAMFLEET_NODE_CLIENT);
const { Codecs, DirectoryClaims, Keys, Producer } = require(process.env.SDK + '/node');
(async () => {
  const client = await createClient({ url: `redis://127.0.0.1:${process.env.PORT}` }).connect();
  const codecs = new Codecs({ keys: Keys.fromEnv('APP_KEYS'), compress: true, claims: new DirectoryClaims('payloads') });
  const [, , type, file] = process.argv;
  process.stdout.write(await new Producer(client, { codecs }).enqueue(type, JSON.parse(fs.readFileSync(file)), { tracking: 'all' }));
  await client.quit();
})();
""",
    ),
    "ruby": (
        "submit.rb",
        """
$LOAD_PATH.unshift(ENV['SDK'] + '/ruby/lib')
require 'redis'
require 'streamfleet'
include Streamfleet
codecs = Codecs.new(keys: Codecs::Keys.from_env('APP_KEYS'), compress: true, claims: Codecs::Directory.new('payloads'))
producer = Producer.new(Redis.new(url: "redis://127.0.0.1:#{ENV['PORT']}"), codecs: codecs)
print producer.enqueue(ARGV[0], JSON.parse(File.read(ARGV[1])), tracking: 'all')
""",
    ),
}
INTERPRETERS = {"python": sys.executable, "php": "php", "node": "node", "ruby": "ruby"}


class Stage:
    """A Redis, a worker with a pool for each language, and a folder with keys and payloads."""

    def __init__(self, folder):
        self.folder, self.port, self.programs = folder, free_port(), []
        for name, code in [*HANDLERS.values(), *PRODUCERS.values()]:
            (folder / name).write_text(code.lstrip())
        self.set_keys("2026-11", "2026-10")
        self.start("redis", [os.environ.get("STREAMFLEET_TEST_REDIS", "redis-server"), "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)])
        self.client = redis.Redis(port=self.port)
        eventually("redis", self.is_up)
        self.codecs = Codecs(keys=Keys({name: KEYS[name] for name in ("2026-11", "2026-10")}), compress=True, claims=Directory(folder / "payloads"))
        self.configure()
        self.worker = self.start("worker", [BIN, "worker"])

    def is_up(self):
        try:
            return self.client.ping()
        except redis.ConnectionError:
            return False

    def set_keys(self, *names):
        (self.folder / "keys").write_text(keys_text(*names).replace(" ", "\n") + "\n")

    def configure(self):
        text = f'[redis]\nurl = "redis://127.0.0.1:{self.port}"\n[telemetry]\nlisten = "127.0.0.1:{free_port()}"\n[queues.default]\n'
        for language, (file, _) in HANDLERS.items():
            command = json.dumps([shutil.which(INTERPRETERS[language]), file])
            text += f'[types."to.{language}"]\ntracking = "all"\nbackoff = {{ fixed = "300ms" }}\nmax_attempts = 200\n'
            text += f'handler.pool = {{ command = {command}, processes = 1, env = {{ SDK = "{ROOT}/sdk" }} }}\n'
        (self.folder / "streamfleet.toml").write_text(text)

    def start(self, name, command):
        log = open(self.folder / f"{name}.log", "ab")
        process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self.programs.append(process)
        return process

    def stop(self):
        for process in reversed(self.programs):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM if process is self.worker else signal.SIGKILL)
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def submit(self, language, job_type, payload):
        """Submits by the producer of a language, and returns the id."""
        if language == "python":
            return Producer(self.client, codecs=self.codecs).enqueue(job_type, payload, tracking="all")
        (self.folder / "payload.json").write_text(json.dumps(payload))
        env = {**os.environ, "APP_KEYS": keys_text("2026-11", "2026-10"), "PORT": str(self.port), "SDK": f"{ROOT}/sdk"}
        if language == "rust":
            env.update(REDIS_URL=f"redis://127.0.0.1:{self.port}", PAYLOADS="payloads")
            command = [RUST, "submit", job_type, "@payload.json"]
        else:
            command = [INTERPRETERS[language], PRODUCERS[language][0], job_type, "payload.json"]
        done = subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=DEADLINE)
        if done.returncode:
            raise AssertionError(f"{language} cannot submit: {done.stderr}")
        return done.stdout.strip().splitlines()[-1]

    def record(self, job_id):
        fields = self.client.hgetall(f"sf:{{default}}:job:{job_id}")
        return {name.decode(): value.decode() for name, value in fields.items()}

    def result(self, job_id):
        def ended():
            record = self.record(job_id)
            assert record.get("state") != "dead", record
            return record if record.get("state") == "done" else None

        return json.loads(eventually(f"the end of {job_id}", ended)["result"])


def texts():
    noise = random.Random(7)
    return {
        "small": "naïve €",
        "large": "a line that is repeated\n" * 100_000,
        "noise": "".join(noise.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(600_000)),
    }


def check_pairs(stage):
    pairs = [("python", "php"), ("php", "node"), ("node", "ruby"), ("ruby", "python"), ("python", "node"), ("php", "ruby")]
    pairs += [("rust", "python"), ("rust", "php")] if RUST else []
    if not RUST:
        print("skip Rust: STREAMFLEET_CODECS is not set")
    for number, (producer, handler) in enumerate(pairs):
        for size, text in texts().items():
            payload = {"n": number, "text": text}
            result = stage.result(stage.submit(producer, f"to.{handler}", payload))
            want = {"by": handler, "n": number, "sha256": hashlib.sha256(text.encode()).hexdigest(), "encoding": "json", "headers": {}}
            assert result == want, (producer, handler, size, result)
        print(f"ok   {producer} → {handler}: small, compressed, stored apart")
    objects = [path for path in (stage.folder / "payloads").rglob("*") if path.is_file()]
    assert len(objects) == len(pairs), objects
    assert all(path.name == hashlib.sha256(path.read_bytes()).hexdigest() for path in objects)


def check_rust_handler(stage):
    if not RUST:
        return
    stage.submit("php", "to.rust", {"n": 1, "text": "x" * 3000})
    env = {**os.environ, "APP_KEYS": keys_text("2026-11"), "PAYLOADS": "payloads", "REDIS_URL": f"redis://127.0.0.1:{stage.port}"}
    done = subprocess.run([RUST, "work", "to.rust"], cwd=stage.folder, env=env, capture_output=True, text=True, timeout=DEADLINE)
    assert done.stdout.startswith('json [] {"n":1,"text":"xxx'), (done.stdout[:100], done.stderr)
    print("ok   php → rust")


def retried(stage, job_id, why):
    """Waits until an attempt has failed for this reason."""
    eventually(f"a retry of {job_id} because {why!r}", lambda: why in stage.record(job_id).get("error", ""))


def check_rotation(stage):
    """A producer has the new key before the handlers: the job is tried again until they have it."""
    new = Codecs(keys=Keys({"2027-01": KEYS["2027-01"]}))
    ids = {language: Producer(stage.client, codecs=new).enqueue(f"to.{language}", {"n": 5, "text": "t"}, tracking="all") for language in HANDLERS}
    for job_id in ids.values():
        retried(stage, job_id, "encrypted with the key 2027-01, which this program does not have")
    stage.set_keys("2027-01", "2026-11", "2026-10")
    stage.worker.send_signal(signal.SIGHUP)
    for language, job_id in ids.items():
        assert stage.result(job_id)["by"] == language
    print("ok   rotation: jobs with a new key wait for the handlers that have it")


def check_missing(stage):
    """An object that is missing is no end of the job: it may come back."""
    for language in HANDLERS:
        text = f"missing for {language} " + texts()["noise"]
        job = Codecs(claims=stage.codecs.claims, claim_above=0).submission(f"to.{language}", {"n": 6, "text": text}, tracking="all")
        sha256 = dict(job.fields)[b"h.codec"].decode().split("sha256=")[1]
        file = stage.folder / "payloads" / sha256[:2] / sha256[2:4] / sha256
        data = file.read_bytes()
        file.unlink()
        job_id = Producer(stage.client).send(job)
        retried(stage, job_id, f"the store has no payload sha256 {sha256}")
        file.write_bytes(data[:-1] + b"!")
        retried(stage, job_id, "has other bytes: it was changed")
        stage.codecs.claims.put(sha256, data[:-2])
        file.write_bytes(data)
        assert stage.result(job_id)["n"] == 6
    print("ok   a missing or changed object: retried, and done once it is there")


def check_tampering(stage):
    """A ciphertext does not fit a job of another type, and a bomb is not unpacked."""
    header, data = stage.codecs.encode_payload("to.other", "json", b'{"n":1,"text":""}')
    bomb_header, bomb = Codecs(compress=True, max_bytes=2**31).encode_payload("to.php", "json", b"0" * (65 * 1024 * 1024))
    for language in HANDLERS:
        moved = stage.client.xadd("sf:{default}:jobs", {"type": f"to.{language}", "payload": data, "encoding": "raw", "h.codec": header, "tracking": "all", "max_attempts": 1})
        exploded = stage.client.xadd("sf:{default}:jobs", {"type": f"to.{language}", "payload": bomb, "encoding": "raw", "h.codec": bomb_header, "tracking": "all", "max_attempts": 1})
        for entry, why in ((moved, "it was changed or moved"), (exploded, "more than 67108864 bytes")):
            record = eventually(f"the death of {entry}", lambda entry=entry: stage.record(entry.decode()) if stage.record(entry.decode()).get("state") == "dead" else None)
            assert why in record["error"], record
    print("ok   a moved ciphertext and a bomb are refused")


def main():
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(pathlib.Path(folder))
        try:
            check_pairs(stage)
            check_rust_handler(stage)
            check_rotation(stage)
            check_missing(stage)
            check_tampering(stage)
        except BaseException:
            for log in stage.folder.glob("*.log"):
                print(f"{log.name}:\n{log.read_text()[-3000:]}", file=sys.stderr)
            raise
        finally:
            stage.stop()


if __name__ == "__main__":
    main()
