"""An application as Celery's documentation writes it. The test runs it on Celery, and then with another first line."""

from celery import Celery, chain, chord, group, shared_task

import os
from functools import cache
from pathlib import Path

import redis

REDIS = os.environ["SHOP_REDIS"]
FOLDER = Path(os.environ["SHOP_FOLDER"])

app = Celery("shop", broker=REDIS, backend=REDIS)
app.conf.update(task_default_queue="shop", result_expires=3600, task_serializer="json")


class Declined(Exception):
    pass


@app.task
def add(x, y):
    return x + y


@shared_task
def total(numbers):
    return sum(numbers)


@app.task(bind=True, max_retries=3)
def send(self, to, *, subject="Hello"):
    """Fails twice, then leaves a mail."""
    if self.request.retries < 2:
        raise self.retry(exc=ConnectionError("the relay is busy"), countdown=0.1)
    with open(FOLDER / "mails", "a") as file:
        file.write(f"{to}: {subject}\n")
    return {"to": to, "retries": self.request.retries}


@app.task(autoretry_for=(ConnectionError,), default_retry_delay=0.1, max_retries=2)
def fetch(url):
    raise ConnectionError(f"no route to {url}")


@app.task(bind=True, max_retries=1)
def give_up(self):
    self.retry(countdown=0.1)


@app.task(name="Shop.charge")
def charge(amount):
    if amount > 100:
        raise Declined(f"{amount} is too much")
    return [amount]


@app.task
def note(number):
    (FOLDER / f"note-{number}").touch()


@app.task(ignore_result=True)
def count():
    """As little as a test can see."""
    counter().incr("shop:count")


@cache
def counter():
    return redis.Redis.from_url(REDIS)


@app.task
def later(asked):
    import time

    return time.time() - asked >= 1.0
