"""Tasks as the documentation of Django writes them. Nothing here knows which backend runs them."""

import os
import time
from datetime import date
from pathlib import Path

from django.conf import settings
from django.core.mail import send_mail

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task


class Declined(Exception):
    """An exception of the application."""


@task
def email_users(emails, subject, message):
    return send_mail(subject=subject, message=message, from_email=None, recipient_list=emails)


@task(priority=10, queue_name="reports", takes_context=True)
def build_report(context, *, month):
    """A report, and a mail about it: the next job of the chain."""
    next_result = email_users.enqueue(["boss@example.com"], "The report", f"of {month} is ready")
    return {"month": month, "attempt": context.attempt, "mailed": bool(next_result.id), "at": date(2026, 11, 1).isoformat()}


@task
def charge(amount):
    if amount > 100:
        raise Declined(f"{amount} is too much")
    return (amount, [amount])


@task
async def fetch(url):
    return {"url": url}


@task
def unserializable():
    return date(2026, 11, 1)


@task
def flaky(name):
    """Fails twice, then succeeds."""
    path = Path(settings.FOLDER, f"flaky-{name}")
    tries = len(path.read_text()) + 1 if path.exists() else 1
    path.write_text("x" * tries)
    if tries < 3:
        raise ConnectionError(f"try {tries}")
    return tries


@task
def hang():
    time.sleep(600)


@task
def die():
    os.kill(os.getpid(), 9)


@task
def note(number, seconds=0):
    """Leaves a file, which says that it ran to its end."""
    time.sleep(seconds)
    Path(settings.FOLDER, "notes", f"{number}").touch()
    return number
