"""The situations by `streamfleet top`. Each function gets a terminal with `top`, and returns what it read."""

from proof.process import Wrong
from stage.night import BEFORE, CAUSE, CUSTOMER, WARMED

ENTER = "\r"
REASON = "the night on call"
# How many pages a search may have.
MOST_PAGES = 200


def keep(top, view, words):
    """Goes to a list, and keeps the rows that have these words."""
    top.press(view, "/")
    top.type(words)
    top.press(ENTER)


def backlog(top, _):
    return top.see("held by type:mail.newsletter").strip()


def customer(top, _):
    keep(top, "2", CUSTOMER)
    # A search that takes long shows how far it is, and the next page goes on.
    for _ in range(MOST_PAGES):
        if "news-wanted" in top.until("a page of jobs", lambda: _page(top)):
            return top.see("news-wanted").strip()
        top.press("n")
    raise Wrong(f"{CUSTOMER} is on none of {MOST_PAGES} pages")


def _page(top):
    """Returns what the screen shows, once a page of jobs was read."""
    text = top.text()
    return text if "news-wanted" in text or "looked at" in text else None


def hung(top, _):
    top.press("3")
    top.choose("report-top")
    top.press("c")
    top.see("Cancel the job report-top")
    top.press(ENTER)
    top.see("asked to stop")
    # The answer names the job, too.
    top.until("that the job is gone", lambda: top.text().count("report-top") == top.text().count("report-top runs"))


def pause(top, _):
    top.choose("orders")
    top.press(ENTER)
    top.choose("order.import")
    top.press("p")
    top.see("Pause type:order.import")
    top.press(ENTER, ENTER)
    top.see("type:order.import of orders is paused")
    top.press("6")
    top.choose("type:order.import", "paused")
    top.press("p")
    top.see("Resume type:order.import")
    top.press(ENTER)
    top.see("type:order.import of orders is resumed")


def limit(top, _):
    keep(top, "6", "webhook")
    for queue in ("orders", "payments"):
        top.choose("webhook.call", queue)
        top.press("l")
        top.type("7/s")
        top.press(ENTER, ENTER)
        top.see(f"limits of type:webhook.call of {queue}")


def canary(top, _):
    keep(top, "4", "template")
    top.choose(CAUSE["top"])
    top.press("r")
    top.see("Replay the")
    top.press(ENTER, ENTER)
    top.see("replays 5 first")
    top.press("7")
    top.choose("replay", "canary")
    top.press("c")
    top.see("Stop the task")
    top.press(ENTER)
    top.see("is stopped")


def decide(top, _):
    keep(top, "4", "payment")
    top.choose("payment.settle")
    top.press(ENTER)
    top.choose("payment-top")
    top.press(ENTER)
    top.see("d decides")
    top.press("G", "k", "d")
    top.see("Decide about the step charge")
    top.type("done")
    top.press(ENTER)
    top.type(REASON)
    top.press(ENTER)
    top.see("charge of payment-top: done")


def drain(top, night):
    name = night.names["top"]
    top.press("5")
    top.choose(name)
    top.press("D")
    top.see(f"Drain {name}")
    top.press(ENTER, ENTER)
    top.until("that it is drained", lambda: any(name in line and "drained" in line for line in top.text().split("\n")))


def move(top, stage):
    # The list also has the moves of those who were here before.
    before = sum(task["kind"] == "move" for task in stage.api("/queues/bulk/tasks")["items"])
    top.choose("bulk")
    top.press(ENTER, "/")
    top.type(f"type={WARMED['top']}")
    top.press(ENTER)
    top.see("clear-")
    top.press("m")
    top.see("Move the jobs of the queue bulk")
    top.type("reports")
    top.press(ENTER, ENTER)
    planned = top.see("jobs of the queue bulk")
    top.press(ENTER)
    top.see("moves them")
    top.press("7")
    over = lambda: sum("move" in line and "done" in line and "running" not in line for line in top.text().split("\n"))
    top.until("that the move is over", lambda: over() > before)
    return planned


def redis(top, _):
    return f"{top.see('held by type:mail.newsletter').strip()} {top.see(' uses ').strip()}"


def yesterday(top, _):
    top.press("a", "/")
    top.type("action=pause until=1d")
    top.press(ENTER)
    top.see(BEFORE["why"])
    return top.see(BEFORE["target"])


# What `top` cannot do, and why.
CANNOT = {
    "tenant": "it cancels one job at a time",
}
# What it does only in part.
PARTLY = {
    "limit": "no breaker",
    "canary": "a payload cannot be edited",
}
