"""Prints how many tasks per second run on streamfleet, and beside it on django-tasks-rq, with the same Redis and as many processes.

    python -m tests.speed [TASKS]

STREAMFLEET_BIN is the program, and django-tasks-rq must be installed. Exit code 1: fewer than three times as many.
"""

import sys
import time

import redis

from tests.fleet import Fleet
from tests.server import Server

WANTED = 3.0
PROCESSES = 2


def measure(backend, server, count):
    """Returns how many tasks per second are enqueued and run."""
    client = redis.Redis(port=server.port)
    client.flushall()
    fleet = Fleet(backend, processes=PROCESSES, server=server)
    try:
        enqueue = f"""
import time
from shop.counting import count
count.enqueue()
begun = time.perf_counter()
for _ in range({count - 1}): count.enqueue()
print({count - 1} / (time.perf_counter() - begun))
"""
        enqueued = float(fleet.script(enqueue))
        # A worker of rq is one process, and one of streamfleet has a pool of them.
        for _ in range(PROCESSES if backend == "rq" else 1):
            fleet.work()

        def done():
            return int(client.get("shop:count") or 0)

        # From then on, all processes are up.
        fleet.until(lambda: done() >= count // 10, "the first tasks run")
        first, begun = done(), time.perf_counter()
        fleet.until(lambda: done() >= count, "all tasks run")
        return enqueued, (count - first) / (time.perf_counter() - begun)
    finally:
        fleet.stop()


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    server = Server()
    try:
        rates = {}
        for backend, times in (("rq", 1), ("streamfleet", 5)):
            rates[backend] = measure(backend, server, count * times)
            print(f"{backend:12} enqueued {rates[backend][0]:7.0f} /s   run {rates[backend][1]:7.0f} /s")
    finally:
        server.stop()
    ratio = rates["streamfleet"][1] / rates["rq"][1]
    print(f"run: {ratio:.1f} times as many, enqueued: {rates['streamfleet'][0] / rates['rq'][0]:.1f} times as many")
    sys.exit(0 if ratio >= WANTED else 1)


if __name__ == "__main__":
    main()
