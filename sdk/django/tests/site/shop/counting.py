"""A task that does as little as a test can see, and that each of the backends takes."""

from functools import cache

import redis
from django.conf import settings

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task


@task
def count():
    counter().incr("shop:count")


@cache
def counter():
    return redis.Redis.from_url(settings.REDIS)
