"""An application that enqueues tasks and reads their results. It prints what it saw as JSON, without what differs from run to run."""

import json
import os
import sys
import time
from datetime import timedelta

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "site_settings")
django.setup()

from django.conf import settings  # noqa: E402
from django.utils import timezone  # noqa: E402

from shop import tasks  # noqa: E402

until = time.monotonic() + float(sys.argv[1])


def ended(result):
    """Waits for the end of a task."""
    while not result.is_finished:
        if time.monotonic() > until:
            sys.exit(f"{result.task.name} has not ended: {result.status}")
        time.sleep(0.02)
        result.refresh()
    return {
        "task": result.task.module_path,
        "queue": result.task.queue_name,
        "priority": result.task.priority,
        "status": str(result.status),
        "args": result.args,
        "kwargs": result.kwargs,
        "value": result.return_value if result.status == "SUCCESSFUL" else None,
        # Backends word their own errors in their own ways.
        "errors": [
            (error.exception_class_path, error.traceback.strip().splitlines()[-1] if "shop" in error.exception_class_path else None)
            for error in result.errors
        ],
        "attempts": result.attempts,
        "times": [time is not None for time in (result.enqueued_at, result.started_at, result.finished_at, result.last_attempted_at)],
        "found by id": result.task.get_result(result.id).id == result.id,
    }


begun = timezone.now()
results = {
    "mail": tasks.email_users.enqueue(["ann@example.com", "bob@example.com"], subject="Welcome", message="Hello"),
    "report": tasks.build_report.enqueue(month="November"),
    "charged": tasks.charge.enqueue(7),
    "declined": tasks.charge.using(priority=-5).enqueue(101),
    "async": tasks.fetch.enqueue("https://example.com"),
    "unserializable": tasks.unserializable.enqueue(),
    "later": tasks.charge.using(run_after=begun + timedelta(seconds=2)).enqueue(8),
}
waiting = results["later"].task.get_result(results["later"].id)
seen = {"waiting": str(waiting.status), **{name: ended(result) for name, result in results.items()}}
later = results["later"]
seen["late"] = later.started_at >= later.task.run_after
mails = settings.EMAIL_FILE_PATH
while time.monotonic() < until and len(list(mails.iterdir())) < 2:
    time.sleep(0.02)
seen["mails"] = sorted(line for mail in mails.iterdir() for line in mail.read_text().splitlines() if line.startswith(("To:", "Subject:")))
print(json.dumps(seen, indent=1))
