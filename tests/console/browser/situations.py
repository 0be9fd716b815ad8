"""Twelve situations of a night on call, each solved by the console and by `top`: how many clicks or keys they take, and how long."""

import dataclasses
import re
import time
from collections.abc import Callable, Iterator

from playwright.sync_api import Error
from proof.process import Wrong, until
from stage.fleet import SOON
from stage.night import BEFORE, TENANT, WARMED, Night

from . import clicks, keys
from .clicks import Clicks
from .terminal import Terminal

# By how much what is said about the future may differ from what is true, as a share.
TOLERANCE = 0.2
# How many letters a way replays: one by itself, and a canary.
MOST_REPLAYED = 6
SECONDS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}


@dataclasses.dataclass
class Situation:
    """What an operator has to do or to find out, and the check of the result."""

    # That of the functions in clicks.py and keys.py that solve it.
    name: str
    what: str
    # Gets the fleet, the way that was used and what was read, and yields what is wrong.
    check: Callable[[Night, str, str], Iterator[str]]


def backlog(night, _, read):
    """The cause is the gate, and the time that is named is that of all jobs at its rate."""
    queue = night.api("/queues/mail")
    if "type:mail.newsletter" not in read:
        yield f"it does not name the gate: {read!r}"
    yield from lasts(read, queue["waiting"] / 2)


def lasts(read, seconds):
    """Yields a complaint unless a text names about this time."""
    times = re.findall(r"(?:\d+[dhms]\b ?)+", read)
    named = [sum(int(count) * SECONDS[unit] for count, unit in re.findall(r"(\d+)([dhms])\b", each)) for each in times]
    if not any(abs(each - seconds) <= TOLERANCE * seconds for each in named):
        yield f"it should name about {seconds:.0f} s, and says {read!r}"


def customer(night, _, read):
    if "news-wanted" not in read or night.api("/queues/mail/jobs/news-wanted")["state"] != "waiting":
        yield f"it is not the mail of the customer: {read!r}"


def hung(night, way, _):
    yield from ended(night, "reports", f"report-{way}", "cancelled")


def ended(night, queue, job, state):
    """Yields a complaint unless a job gets into a state soon."""
    try:
        until(f"{job} to be {state}", lambda: night.api(f"/queues/{queue}/jobs/{job}")["state"] == state, SOON)
    except Wrong as wrong:
        yield str(wrong)


def pause(night, way, _):
    """The audit has both, and the type is open."""
    who = {"console": "operator", "top": "night"}[way]
    notes = [each["what"] for each in night.api(f"/audit?queue=orders&who={who}")["items"]]
    if sorted(notes) != ["pause", "resume"]:
        yield f"the audit of orders has {notes} of {who}"
    for gate in night.api("/queues/orders/gates")["items"]:
        if gate["gate"] == "type:order.import" and gate["state"] == "paused":
            yield f"the type is still paused: {gate}"


def limit(night, way, _):
    rate = {"console": "5/s", "top": "7/s"}[way]
    for queue in ("orders", "payments"):
        gates = {each["gate"]: each for each in night.api(f"/queues/{queue}/gates")["items"]}
        gate = gates["type:webhook.call"]
        if gate.get("rate") != rate or not gate.get("breaker"):
            yield f"the gate of {queue} has the rate {gate.get('rate')} and the breaker {gate.get('breaker')}"


def canary(night, way, _):
    """The task was stopped before it went on from its canary."""
    who = {"console": "operator", "top": "night"}[way]
    ours = [each for each in night.api("/queues/mail/tasks")["items"] if each["who"] == who]
    found = [(each["kind"], each["state"], each["canary"]) for each in ours]
    if found != [("replay", "stopped", 5)]:
        yield f"the tasks of {who} are {found}"
    # The canary still runs: what is done is the mail that was edited.
    tried = night.api("/queues/mail/jobs?type=mail.send&state=done")["items"]
    if way == "console" and len(tried) != 1:
        yield f"{len(tried)} mails were sent, not the one that was edited"
    left, all_letters = night.api("/queues/mail")["dead"], night.mails // 10
    if left < all_letters - 2 * MOST_REPLAYED:
        yield f"{left} of {all_letters} letters are left: more than a canary was replayed"


def decide(night, way, _):
    yield from ended(night, "payments", f"payment-{way}", "done")


def drain(night, way, _):
    """Only this worker is drained. It takes jobs again afterwards, as the next situations need it."""
    drained = [each["consumer"] for each in night.api("/workers")["items"] if each.get("drain")]
    if drained != [night.names[way]]:
        yield f"{drained} are drained, not {night.names[way]}"
    for each in drained:
        night.streamfleet("workers", "resume", each)


def move(night, way, read):
    left = len(night.api(f"/queues/bulk/jobs?type={WARMED[way]}&state=waiting&limit=500")["items"])
    task = max(night.api("/queues/bulk/tasks")["items"], key=lambda each: each["created_ms"])
    if left or task["kind"] != "move" or task["state"] != "done" or str(task["done"]) not in re.sub(r"\D", "", read):
        yield f"{left} jobs are left; {task['kind']} is {task['state']} with {task['done']}, and the plan said {read!r}"


def tenant(night, _, read):
    found = night.api(f"/queues/bulk/jobs?header=tenant%3D{TENANT}&state=waiting&limit=500")["items"]
    others = night.api("/queues/bulk/jobs?type=tenant.export&state=waiting&limit=500")["items"]
    cancelled = max(night.api("/queues/bulk/tasks")["items"], key=lambda each: each["created_ms"])["done"]
    if found or not others or str(cancelled) not in re.sub(r"\D", "", read):
        yield f"{len(found)} jobs of the tenant wait, and {len(others)} of others; {cancelled} are cancelled, and the plan said {read!r}"


def redis(night, _, read):
    yield from lasts(read, night.api("/queues/mail")["waiting"] / 2)
    server = night.api("/servers")["items"][0]
    share = round(100 * server["used_memory_bytes"] / server["max_memory_bytes"])
    if not any(abs(int(each) - share) <= 2 for each in re.findall(r"(\d+)\s*%", read)):
        yield f"Redis uses {share} %, and it says {read!r}"


def yesterday(_, __, read):
    if BEFORE["who"] not in read or BEFORE["target"] not in read:
        yield f"it does not say who did what: {read!r}"


ALL = [
    Situation("backlog", "1 a backlog: what holds it, for how long", backlog),
    Situation("customer", "2 one customer's job, deep in the backlog", customer),
    Situation("hung", "3 a hung job is cancelled", hung),
    Situation("pause", "4 a type is paused and resumed", pause),
    Situation("limit", "5 an API is limited in two queues", limit),
    Situation("canary", "6 a payload is edited and tried; a canary; stop", canary),
    Situation("decide", "7 a once step is decided", decide),
    Situation("drain", "8 a worker is drained", drain),
    Situation("move", "9 jobs are moved to another queue", move),
    Situation("tenant", "10 the jobs of one tenant are cancelled", tenant),
    Situation("redis", "11 is Redis full; when is the queue empty", redis),
    Situation("yesterday", "12 who paused what yesterday", yesterday),
]


class Solved:
    """What a way took: clicks or keys, and seconds."""

    def __init__(self):
        self.acts, self.seconds, self.began = 0, 0.0, time.monotonic()

    def end(self, acts):
        self.acts, self.seconds = acts, time.monotonic() - self.began

    def told(self, but=""):
        return f"{self.acts}, {self.seconds:.1f}" + (f"; {but}" if but else "")


def by_console(visit, situation):
    """Solves a situation in a window of its own."""
    watch = visit.watch(person="operator")
    me, found = Clicks(watch), []
    try:
        solved = Solved()
        me.begin()
        read = getattr(clicks, situation.name)(me, visit.stage)
        solved.end(me.acts)
        found += watch.complaints()
    except Error:
        if visit.folders.failures:
            watch.page.screenshot(path=visit.folders.failures / f"{situation.name}.png")
        raise
    finally:
        watch.close()
    return solved.told(), found + list(situation.check(visit.stage, "console", read or ""))


def by_top(visit, situation):
    """Solves a situation in a terminal of its own."""
    stage = visit.stage
    command = [stage.program, "--config", str(stage.config), "top", "--by", "night"]
    solved = Solved()
    top = Terminal(stage.programs, command, {"STREAMFLEET__REDIS__URL": stage.address("operator")})
    try:
        top.begin("? help")
        read = getattr(keys, situation.name)(top, stage)
        solved.end(top.acts)
    finally:
        top.close()
    return solved.told(keys.PARTLY.get(situation.name, "")), list(situation.check(stage, "top", read or ""))


def check(visit):
    """Solves all situations, and prints what they took."""
    rows = []
    for situation in ALL:
        row = [situation.what]
        for way, solve in (("console", by_console), ("top", by_top)):
            if way == "top" and situation.name in keys.CANNOT:
                row.append(f"no: {keys.CANNOT[situation.name]}")
                continue
            told = ["–"]

            def find(solve=solve, situation=situation, told=told):
                told[0], complaints = solve(visit, situation)
                return complaints

            visit.judge(f"{situation.what}: {way}", find)
            row.append(told[0])
        rows.append(row)
    show(rows)


def show(rows):
    """Prints the table."""
    rows = [["situation", "console: clicks, s", "top: keys, s"], *rows]
    widths = [max(len(row[nth]) for row in rows) for nth in range(3)]
    print(flush=True)
    for row in rows:
        print("      " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip(), flush=True)
