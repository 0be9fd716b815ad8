"""Prints how many tasks per second run on streamfleet, and beside it on Celery, with the same Redis, as many processes and the same tasks.

    python -m tests.celery_speed [TASKS]

STREAMFLEET_BIN is the program, and celery[redis] must be installed. Exit code 1: fewer than three times as many.
"""

import sys
import time

import redis

from tests.server import Server
from tests.test_celery import Fleet

WANTED = 3.0
PROCESSES = 2

ENQUEUE = """
import sys, time
from shop import count
number = int(sys.argv[1])
count.delay()
begun = time.perf_counter()
for _ in range(number - 1): count.delay()
print((number - 1) / (time.perf_counter() - begun))
"""


def measure(backend, server, number):
    """Returns how many tasks per second are submitted and run."""
    client = redis.Redis(port=server.port)
    client.flushall()
    fleet = Fleet(backend, server=server)
    try:
        submitted = float(fleet.script("-c", ENQUEUE, str(number)))
        fleet.work(PROCESSES)

        def done():
            return int(client.get("shop:count") or 0)

        # From then on, all processes are up.
        fleet.until(lambda: done() >= number // 10, "the first tasks run")
        first, begun = done(), time.perf_counter()
        fleet.until(lambda: done() >= number, "all tasks run")
        return submitted, (number - first) / (time.perf_counter() - begun)
    finally:
        fleet.stop()


def main():
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 10000
    server = Server()
    try:
        rates = {}
        for backend in ("celery", "streamfleet"):
            rates[backend] = measure(backend, server, number)
            print(f"{backend:12} submitted {rates[backend][0]:7.0f} /s   run {rates[backend][1]:7.0f} /s")
    finally:
        server.stop()
    ratio = rates["streamfleet"][1] / rates["celery"][1]
    print(f"run: {ratio:.1f} times as many, submitted: {rates['streamfleet'][0] / rates['celery'][0]:.1f} times as many")
    sys.exit(0 if ratio >= WANTED else 1)


if __name__ == "__main__":
    main()
