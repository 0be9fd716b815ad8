"""Fills a queue of Celery or rq. Prints how many failed jobs it has."""

import sys

import redis

system, url, jobs, failed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

if system == "celery":
    from celery import Celery

    app = Celery("shop", broker=url)
    with app.producer_pool.acquire(block=True) as producer:
        for n in range(jobs):
            app.send_task("mail.send", args=[n], kwargs={"to": "ann"}, producer=producer, priority=n % 10)
    print(0)
else:
    from rq import Queue
    from rq.job import Job
    from rq.registry import FailedJobRegistry

    connection = redis.Redis.from_url(url)
    queue = Queue("mail", connection=connection)
    for first in range(0, jobs, 1000):
        rows = [Queue.prepare_data("shop.send", args=(n,)) for n in range(first, min(first + 1000, jobs))]
        queue.enqueue_many(rows)
    registry = FailedJobRegistry("mail", connection=connection)
    for n in range(failed):
        job = Job.create("shop.send", args=(n,), connection=connection, origin="mail")
        job.save()
        registry.add(job, ttl=-1, exc_string="ConnectionError: no route")
    print(failed)
