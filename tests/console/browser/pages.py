"""Every page of the console, with the jobs that the stage submitted."""

from urllib.parse import quote

# What the address bar may have: the path, and the status if it is not 200.
MISSING = ("/queues/orders/jobs/nobody-knows-it", 404)


def every(stage):
    """Returns the addresses of all pages, with the status of each."""
    letters = stage.streamfleet("dead", "list", "--queue", "mail", "-o", "name").split()
    malformed = stage.streamfleet("dead", "list", "--queue", "mail", "--dead-reason", "malformed", "-o", "name").split()
    decision = stage.streamfleet("dead", "list", "--queue", "orders", "--dead-reason", "needs_decision", "-o", "name").split()
    campaign = stage.streamfleet("tasks", "list", "--queue", "mail", "-o", "name").split()[0]
    letter = next(each for each in letters if each not in malformed)
    incident = stage.incidents()["dead_group"]
    paths = [
        "/",
        *(f"/queues/orders?tab={tab}" for tab in ("waiting", "running", "delayed", "scheduled", "retrying", "done", "dead")),
        "/queues/mail",
        "/queues/imports?tab=waiting",
        "/queues/orders/jobs/order-3",
        "/queues/orders/jobs/report-november",
        "/queues/orders/jobs/later-5",
        "/queues/orders/jobs/sync-1",
        "/queues/orders/jobs/payment-2",
        "/queues/mail/jobs/mail-3",
        "/queues/mail/jobs/hostile-1",
        "/jobs",
        "/jobs?state=done&type=order.import",
        "/jobs?queue=mail&where=" + quote("payload.to=ann3@example.com", safe=""),
        "/running",
        "/dead",
        "/queues/mail/dead",
        "/queues/mail/dead?letters=all",
        f"/queues/mail/dead/{letter}",
        f"/queues/mail/dead/{malformed[0]}",
        f"/queues/orders/dead/{decision[0]}",
        "/campaigns",
        "/queues/mail/campaigns",
        f"/queues/mail/campaigns/{campaign}",
        "/decisions",
        "/incidents",
        "/incidents?tab=over",
        f"/incidents/{incident}",
        f"/incidents/{incident}/ack",
        "/alerts",
        "/gates",
        "/gates?queue=imports",
        "/recurring",
        "/workers",
        "/submit",
        "/submit?queue=orders&job=later-5",
        "/audit",
        "/queues/orders/jobs/later-5/cancel",
        "/queues/orders/jobs/later-5/run-now",
        "/queues/orders/jobs/later-5/reschedule",
        "/queues/orders/jobs/later-5/edit",
        "/queues/orders/jobs/payment-2/steps/charge/decide?verdict=done",
        f"/queues/mail/dead/{letter}/replay",
        f"/queues/mail/dead/{letter}/edit",
        f"/queues/mail/dead/{letter}/drop",
        "/queues/mail/campaigns/plan",
        "/queues/mail/dead-drop",
        f"/queues/mail/campaigns/{campaign}/pause",
        "/queues/orders/gates/pause?gate=queue",
        "/queues/orders/gates/limit?gate=type%3Awebhook.call",
        "/queues/orders/recurring/nightly",
        "/queues/imports/bulk/cancel",
        "/queues/imports/bulk/move",
        "/queues/orders/bulk/run-now",
    ]
    return [*((path, 200) for path in paths), MISSING, ("/queues/Or%20ders", 422)]


# Pages that need no login.
OPEN = [("/login", 200)]

# The pictures of the documentation: the name, the page, the width, the height and the theme.
PICTURES = [
    ("console-overview", "/", 1280, 900, "light"),
    ("console-queue", "/queues/orders", 1280, 1100, "light"),
    ("console-job", "/queues/orders/jobs/report-november", 1280, 900, "dark"),
    ("console-dead", "/queues/mail/dead?type=mail.send", 1280, 800, "light"),
    ("console-decision", "/queues/orders/jobs/payment-2", 1280, 900, "light"),
    ("console-small", "/", 360, 740, "dark"),
]
