"""Drains a queue of each system with `streamfleet import`, which is killed several times, and counts the jobs. See check.sh."""

import collections
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

import redis

DEADLINE = 900
KILLS = 4

# For each system: what fills a queue of it, its mapping, the keys that are left at the end, and where a payload has the number of its job.
SYSTEMS = {
    "celery": (["python", "fill.py"], 'name = "celery"', lambda payload: payload["args"][0]),
    "rq": (["python", "fill.py"], 'name = "mail"\ntype = "mail.send"', lambda payload: payload["args"][0]),
    "bullmq": (["node", "fill.mjs"], 'name = "mail"', lambda payload: payload["n"]),
    "sidekiq": (["ruby", "fill.rb"], 'name = "mail"\ntype = "mail.send"', lambda payload: payload[0]),
    "laravel": (["php", "fill.php"], 'name = "mail"\ntype = "mail.send"', lambda payload: payload["n"]),
    "hyperf": (["php", "fill.php"], 'name = "{mail}"\ntype = "mail.send"', lambda payload: payload["n"]),
    "webman": (["php", "fill.php"], 'name = "mail"\ntype = "mail.send"', lambda payload: payload["n"]),
}


def serve(folder: pathlib.Path) -> tuple[subprocess.Popen, redis.Redis, str]:
    """Starts a private server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = os.environ.get("STREAMFLEET_TEST_REDIS", "redis-server")
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    process = subprocess.Popen([server, *options], stdout=subprocess.DEVNULL)
    client = redis.Redis(port=port)
    wait(lambda: answers(client), "the server answers")
    return process, client, f"redis://127.0.0.1:{port}"


def answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


def wait(condition, what: str, deadline: float = DEADLINE) -> None:
    """Waits until something holds."""
    until = time.monotonic() + deadline
    while not condition():
        if time.monotonic() > until:
            sys.exit(f"not within {deadline} s: {what}")
        time.sleep(0.005)


def elements(client: redis.Redis) -> int:
    """How many jobs the other system still has in its keys."""
    counted = {b"list": client.llen, b"zset": client.zcard}
    # BullMQ and Laravel wake their workers by keys of these names.
    keys = [key for key in client.scan_iter() if not key.endswith((b":marker", b":notify"))]
    return sum(counted.get(client.type(key), lambda _: 0)(key) for key in keys)


def numbers(client: redis.Redis, stream: str, number) -> collections.Counter:
    """The numbers of the jobs in a stream."""
    found: collections.Counter = collections.Counter()
    last = "-"
    while True:
        page = client.xrange(stream, last, "+", 5000)
        if not page:
            return found
        found.update(number(json.loads(fields[b"payload"])) for _, fields in page)
        last = "(" + page[-1][0].decode()


def drain(program: str, folder: pathlib.Path, servers: dict, name: str, chance: random.Random) -> int:
    """Imports, and kills the import several times. Returns how often it was killed."""
    _, mapping, _ = SYSTEMS[name]
    old, old_url = servers["old"]
    file = folder / "redis.toml"
    file.write_text(f'url = "{old_url}"\n[[list]]\nsystem = "{name}"\nqueue = "taken"\n{mapping}\n')
    env = {"PATH": os.environ["PATH"], "STREAMFLEET__REDIS__URL": servers["ours"][1]}
    command = [program, "import", str(file), "--yes", "-o", "json"]
    all_of_them, kills = elements(old), 0
    for nth in range(KILLS):
        aim = all_of_them * (KILLS - nth - chance.random()) / (KILLS + 1)
        with open(folder / "log", "w") as log:
            started = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        wait(lambda: elements(old) <= aim or started.poll() is not None, "the import goes on")
        kills += started.poll() is None
        started.send_signal(signal.SIGKILL)
        started.wait()
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=DEADLINE)
    if done.returncode != 0:
        sys.exit(f"{name}: exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return kills


def check(program: str, name: str, jobs: int, failed: int, chance: random.Random) -> None:
    """Checks one system."""
    fill, _, number = SYSTEMS[name]
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        processes, servers = [], {}
        try:
            for role in ("old", "ours"):
                process, client, url = serve(folder)
                processes.append(process)
                servers[role] = (client, url)
            fill = [sys.executable if fill[0] == "python" else fill[0], *fill[1:]]
            filled = subprocess.run(
                [*fill, name, servers["old"][1], str(jobs), str(failed)], capture_output=True, text=True
            )
            if filled.returncode != 0:
                print(f"skip {name}: {(filled.stderr or filled.stdout).strip().splitlines()[-1:]}")
                return
            # Celery and Laravel keep what has failed elsewhere.
            dead = int(filled.stdout.strip() or failed)
            begun = time.monotonic()
            kills = drain(program, folder, servers, name, chance)
            seconds = time.monotonic() - begun
            ours = servers["ours"][0]
            waiting = numbers(ours, "sf:{taken}:jobs", number)
            letters = numbers(ours, "sf:{taken}:dead", number)
            assert waiting == collections.Counter(range(jobs)), f"{name}: {wrong(waiting, jobs)}"
            assert letters == collections.Counter(range(dead)), f"{name}: {wrong(letters, dead)}"
            assert elements(servers["old"][0]) == 0, f"{name}: elements are left"
            rate = (jobs + dead) / seconds
            print(f"ok   {name}: {jobs} waiting, {dead} dead, each once; killed {kills} times; {rate:.0f}/s", flush=True)
        finally:
            for process in processes:
                process.kill()
                process.wait()


def wrong(found: collections.Counter, count: int) -> str:
    missing = count - len(found)
    twice = sum(1 for times in found.values() if times > 1)
    return f"{missing} of {count} are missing, {twice} are there more than once"


def main() -> None:
    program, jobs, failed, *names = sys.argv[1:]
    seed = int(os.environ.get("SEED", random.randrange(2**32)))
    print(f"seed {seed}")
    chance = random.Random(seed)
    for name in names or SYSTEMS:
        check(program, name, int(jobs), int(failed), chance)


main()
