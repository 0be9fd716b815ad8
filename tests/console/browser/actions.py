"""Everything that a person can do, each through its form, by mouse or by keyboard."""

from . import ways
from .hands import DRAWER, SEND, Hands
from .pages import CONSOLE, listed

JOBS = "/queues/orders/jobs"


def submit(hands):
    found = hands.open("/submit")
    fields = {"#submit-queue": "orders", "#submit-type": "order.import", "main textarea >> nth=0": '{"customer": 3, "lines": 2}'}
    for selector, value in fields.items():
        hands.page.locator(selector).fill(value)
    hands.button("submit.submit").click()
    link = hands.page.locator("main [role='status'] a.mono")
    link.wait_for()
    return found + hands.left("orders", "done", link.inner_text().strip()) + hands.watch.complaints()


def acknowledge(hands):
    path = f"/incidents/{hands.stage.incidents()['needs_decision']}"
    return hands.act(path, "action.ack", by_keyboard=True)


def test_sink(hands):
    before, found = len(hands.stage.sink.messages), hands.open("/alerts")
    hands.button("action.test").click()
    hands.page.locator(SEND).click()
    hands.page.locator(f"{DRAWER} [role='status'] pre").wait_for()
    if len(hands.stage.sink.messages) == before:
        found.append("the sink got no message")
    return found + hands.watch.complaints()


def cancel(hands):
    return hands.act(f"{JOBS}/later-1", "action.cancel_jobs", by_keyboard=True) + hands.left("orders", "cancelled", "later-1")


def cancel_running(hands):
    return hands.act(f"{JOBS}/report-november", "action.cancel_jobs") + hands.left("orders", "cancelled", "report-november")


def run_now(hands):
    return hands.act(f"{JOBS}/later-2", "action.run_now") + hands.left("orders", "done", "later-2")


def reschedule(hands):
    return hands.act(f"{JOBS}/later-3", "job.reschedule", {"#reschedule-delay": "5h"}, by_keyboard=True)


def edit(hands):
    found = hands.act(f"{JOBS}/later-4", "job.edit", {"#edited-payload": '{"lines": 1, "note": "edited"}'})
    shown = hands.stage.streamfleet("status", "later-4", "--queue", "orders")
    return found if "edited" in shown else [*found, f"the payload is unchanged: {shown}"]


def edit_changed(hands):
    """Somebody else changes a job while its form is open."""
    found = hands.open(f"{JOBS}/later-5")
    hands.button("job.edit").click()
    field = hands.page.locator(f"{DRAWER} #edited-payload:enabled")
    field.fill('{"note": "second"}')
    hands.stage.streamfleet("delayed", "edit", "later-5", "--queue", "orders", "--payload", '{"note": "first"}')
    hands.page.locator(f"{DRAWER} .remark[role='alert']").wait_for()
    if field.input_value() != '{"note": "second"}':
        found.append("what was typed is lost")
    hands.page.keyboard.press("Escape")
    return found + hands.watch.complaints()


def decide(hands):
    found = []
    for job, verdict in (("payment-1", "done"), ("payment-3", "give-up"), ("payment-4", "run")):
        choice = {f"input[value='{verdict}']": True}
        found += hands.act(f"{JOBS}/{job}", "action.decide", choice, by_keyboard=verdict == "run")
    found += hands.open("/decisions")
    return found + hands.left("orders", "done", "payment-1")


def gates(hands):
    found = hands.open("/gates?all")
    hands.menu("webhook.call", "action.limit_to")
    found += hands.send({"#limit-rate": "30/m", "#limit-concurrency": "6"})
    hands.menu("webhook.call", "action.clear")
    found += hands.send()
    hands.menu("webhook.call", "action.pause_for")
    found += hands.send(by_keyboard=True)
    found += hands.act("/gates?all", "action.resume", within="main tr:has-text('webhook.call')")
    return found


def pause_queue(hands):
    found = hands.open("/")
    ways.palette(hands.watch, hands.words["pause.title"], "mail")
    found += hands.send({"#pause-for": "5m"} if hands.page.locator("#pause-for").count() else {})
    ways.palette(hands.watch, hands.words["resume.title"], "mail")
    return found + hands.send(by_keyboard=True)


def recurring(hands):
    found = hands.open("/recurring")
    hands.button("cron.add").click()
    place = {"#cron-name": "hourly", "#cron-queue": "orders", "#cron-type": "cache.warm"}
    found += hands.send({**place, "#cron-schedule": "0 * * * *", "#cron-zone": "Asia/Shanghai"})
    hands.page.locator("main tbody tr", has_text="hourly").wait_for()
    for key in ("cron.pause", "cron.resume", "cron.run", "cron.remove"):
        # The page may ask for the ticks of a job that has just been removed.
        hands.watch.expected = {404} if key == "cron.remove" else set()
        hands.menu("hourly", key)
        found += hands.send(by_keyboard=key == "cron.run")
        hands.watch.settle()
    return found


def bulk(hands):
    found = hands.act("/jobs?queue=imports&where=payload.customer%3D2", "bulk.open", {"bulk.move": None, "#bulk-to": "orders"})
    found += hands.left("orders", "done", "import-1", "import-11")
    found += hands.act("/jobs?queue=orders&state=retrying", "bulk.open", {"bulk.run-now": None})
    return found


def unserved(hands):
    """The jobs of a type that no worker knows go to another queue, from the card that says so."""
    found = hands.act("/queues/orders", "unserved.move", {"#bulk-to": "imports"})
    return found + hands.left("imports", "waiting", "unknown-1")


def chosen(hands):
    found = hands.open("/jobs?queue=imports")
    names = hands.page.locator("main tbody tr:not(.gap) a.mono").all_inner_texts()[:2]
    for nth in (0, 1):
        hands.page.locator("main tbody tr:not(.gap) input[type='checkbox']").nth(nth).check()
    hands.button("action.cancel_jobs", "[role='toolbar']").click()
    return found + hands.send() + hands.left("imports", "cancelled", *(name.strip() for name in names))


def replay_job(hands):
    hands.stage.repair()
    return hands.act("/queues/mail/jobs/mail-1", "action.replay", by_keyboard=True) + hands.left("mail", "done", "mail-1")


def letter(hands, job):
    """Returns the address of the dead letter of a job."""
    found = listed(hands.stage, "dead", "list", "--queue", "mail")
    return f"/queues/mail/dead/{next(each['letter'] for each in found if each['id'] == job)}"


def edit_letter(hands):
    found = hands.act(letter(hands, "mail-2"), "dead.edit", {"#edit-payload": '{"to": "ann@example.com"}'}, expected=(404,))
    return found + hands.act(letter(hands, "mail-2"), "letter.undo_verb", expected=(404,))


def drop_letter(hands):
    # The page sees that the letter has gone.
    found = hands.act(letter(hands, "mail-3"), "dead.drop", expected=(404,))
    found += hands.act(letter(hands, "mail-4"), "action.replay", expected=(404,))
    return found + hands.left("mail", "done", "mail-4")


def replay_group(hands):
    group = next(each for each in listed(hands.stage, "dead", "list", "--queue", "mail") if each["id"] == "mail-5")["fingerprint"]
    found = hands.act(f"/queues/mail/dead/groups/{group}", "group.canary", {"#replay-canary": "1", "#replay-rate": "0.1"})
    task = max(listed(hands.stage, "tasks", "list", "--queue", "mail"), key=lambda each: each["created_ms"])["id"]
    for key in ("action.pause_task", "action.resume_task", "action.stop_task"):
        found += hands.act(f"/queues/mail/tasks/{task}", key, by_keyboard=key == "action.resume_task")
    return found


def restore(hands):
    """A job that only the history has comes back as a dead letter of a group of its own."""
    found = hands.act("/queues/orders/history?state=done&id=forgotten-1", "past.restore")
    hands.button("past.restore_group").click()
    hands.page.locator("main", has_text="again-").first.wait_for()
    hands.watch.settle()
    return found + hands.watch.complaints()


def drop_all(hands):
    return hands.act("/queues/mail/dead?type=mail.send", "dead.drop_matching")


def drain(hands):
    found = hands.act("/workers", "action.drain")
    hands.watch.settle()
    hands.button("action.resume").click()
    return found + hands.send(by_keyboard=True)


def empty_queue(hands):
    hands.stage.streamfleet("enqueue", "order.import", "{}", "--queue", "old")
    found = hands.open("/queues/old")
    hands.menu("", "action.purge")
    found += hands.send({"label:has-text('aiting') input": True, "#purge-name": "old"})
    hands.stage.until_state("old", "waiting", 0)
    # Pages may ask for what it had, until they know that it has gone.
    found += hands.open("/queues/old", 404)
    hands.menu("", "action.delete")
    found += hands.send({"#delete-name": "old"})
    found += hands.open("/", 404)
    hands.page.locator("main a[href$='/queues/old']").first.wait_for(state="detached")
    return found


# Each with the forms that it uses, in this order, because some change what others need. The last one ends the session.
ALL = {
    "a job is found by the palette": (ways.search, ()),
    "keys lead to every section, and a link skips the navigation": (ways.keys, ()),
    "keys lead from row to row of a list": (ways.rows, ()),
    "a page shows what happens while it is open": (ways.live, ()),
    "theme and language can be chosen": (ways.preferences, ()),
    "a job is submitted": (submit, ("Submit",)),
    "an incident is acknowledged": (acknowledge, ("AckIncident",)),
    "a sink is tested": (test_sink, ("TestSink",)),
    "a delayed job is cancelled": (cancel, ("CancelJob",)),
    "a running job is cancelled": (cancel_running, ()),
    "a delayed job runs now": (run_now, ("RunJobNow",)),
    "a delayed job is rescheduled": (reschedule, ("RescheduleJob",)),
    "the payload of a delayed job is edited": (edit, ("EditDelayed",)),
    "whoever edits a job that somebody else has changed is told": (edit_changed, ()),
    "three steps are decided": (decide, ("Decide",)),
    "a gate is limited, cleared, closed and opened": (gates, ("LimitGate", "ClearGate", "PauseGate", "ResumeGate")),
    "a queue is paused and resumed by the palette": (pause_queue, ("PauseQueue", "ResumeQueue")),
    "a recurring job is added, paused, resumed, run and removed": (recurring, ("EditCron", "ChangeCron")),
    "jobs that match are moved and brought forward": (bulk, ("BulkJobs",)),
    "jobs of a type that no worker knows are moved": (unserved, ()),
    "chosen jobs are cancelled": (chosen, ("ChosenJobs",)),
    "a dead job is replayed": (replay_job, ("ReplayJob",)),
    "a dead letter is edited, and its edits are undone": (edit_letter, ("EditLetter", "UndoEdits")),
    "a dead letter is dropped, another one replayed": (drop_letter, ("ChosenLetters",)),
    "a group is replayed with a canary; the task is paused, resumed and stopped": (replay_group, ("ReplayLetters", "ChangeTask")),
    "a job of the history is brought back": (restore, ("Restore",)),
    "dead letters that match are dropped": (drop_all, ("DropLetters",)),
    "a worker is drained and resumed": (drain, ("DrainWorker", "ResumeWorker")),
    "a queue is emptied and deleted": (empty_queue, ("PurgeQueue", "DeleteQueue")),
    "the person logs out": (ways.log_out, ()),
}


def forms():
    """Returns the names of the components that are forms of actions."""
    source = CONSOLE / "src"
    known = [*source.glob("actions/*.svelte"), *source.glob("pages/*/*.svelte")]
    return {path.stem for path in known if "<Confirm" in path.read_text(encoding="utf-8")}


def act(visit):
    """Does everything that a person can do."""
    done = {name for _, names in ALL.values() for name in names}
    visit.judge("every form of an action is used", lambda: [f"no check uses {name}.svelte" for name in sorted(forms() - done)])
    watch = visit.watch()
    hands = Hands(watch, visit.stage)
    for what, (action, _) in ALL.items():
        visit.judge(what, lambda action=action: action(hands), watch)
    watch.close()
    # The session has ended with the last action.
    del visit.sessions["admin"]
