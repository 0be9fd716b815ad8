"""What a program does with the API: it submits jobs, waits for them, finds them, changes them, and deals with those that died."""

import json
import threading
import time

from stage.fleet import DEAD

QUEUE = "/api/v1/queues/{queue}"
JOBS = f"{QUEUE}/jobs"
JOB = f"{JOBS}/{{id}}"
LETTERS = f"{QUEUE}/dead"
LETTER = f"{LETTERS}/{{letter}}"
# How long an event may take on a busy machine.
SOON = 60


def wanted(answer, status, /, **facts):
    """Yields how an answer differs from what is wanted."""
    if answer.status != status:
        yield f"the status is {answer.status}, not {status}: {answer.content[:300]!r}"
        return
    for name, value in facts.items():
        found = answer.json.get(name) if isinstance(answer.json, dict) else None
        if found != value:
            yield f"{name} is {found!r}, not {value!r}: {answer.content[:300]!r}"


def submits(api):
    """A job is submitted, its result is waited for, and a repeated request submits nothing."""
    payload = {"customer": 7, "lines": 3}
    done = api.call("post", JOBS, queue="orders", body={"type": "order.import", "payload": payload}, wait="60s")
    yield from wanted(done, 200, state="done", result={"rows": 3, "customer": 7})
    body = {"type": "order.import", "payload": payload, "track": True}
    first = api.call("post", JOBS, queue="orders", body=body, idempotency_key="check-7")
    yield from wanted(first, 201, existing=False)
    again = api.call("post", JOBS, queue="orders", body=body, idempotency_key="check-7")
    yield from wanted(again, 200, existing=True, id=first.json["id"])
    yield from wanted(api.call("get", JOB, queue="orders", id=first.json["id"], wait="60s"), 200, state="done")
    other = api.call("post", JOBS, queue="orders", body={**body, "type": "shop.sync"}, idempotency_key="check-7")
    if other.status < 400:
        yield f"another job with the same key is accepted: {other.content!r}"


def finds(api):
    """Queues, jobs, types and workers are listed; a list continues where its page ended."""
    queues = api.call("get", "/api/v1/queues")
    names = {each["queue"] for each in queues.json["items"]}
    if not {"orders", "mail", "imports"} <= names:
        yield f"the queues are {names}"
    yield from wanted(api.call("get", QUEUE, queue="orders"), 200, queue="orders")
    types = api.call("get", f"{QUEUE}/types", queue="orders")
    if not any(each["type"] == "order.import" and each["served"] for each in types.json["items"]):
        yield f"no type order.import is served: {types.content!r}"
    page = api.call("get", JOBS, queue="orders", state="done", limit=5)
    yield from wanted(page, 200)
    ids = [each["id"] for each in page.json["items"]]
    while page.json["next"]:
        page = api.call("get", JOBS, queue="orders", state="done", limit=5, after=page.json["next"])
        ids += [each["id"] for each in page.json["items"]]
    if len(ids) != len(set(ids)) or len(ids) < 10:
        yield f"the pages have the jobs {ids}"
    found = api.call("get", JOBS, queue="orders", type="shop.*", state="retrying")
    if {each["type"] for each in found.json["items"]} != {"shop.sync"}:
        yield f"a search by type finds {found.content!r}"
    everywhere = api.call("get", "/api/v1/jobs", state="dead", where="payload.to=ann3@example.com")
    if [each["id"] for each in everywhere.json["items"]] != ["mail-3"]:
        yield f"a search in all queues finds {everywhere.content!r}"
    if not api.call("get", "/api/v1/workers").json["items"]:
        yield "there are no workers"


def reads(api):
    """The payload and the result of a job are returned as they are."""
    payload = api.call("get", f"{JOB}/payload", queue="mail", id="mail-1")
    if payload.status != 200 or json.loads(payload.content)["to"] != "ann1@example.com":
        yield f"the payload is {payload.status} {payload.content!r}"
    result = api.call("get", f"{JOB}/result", queue="orders", id="order-1")
    yield from wanted(result, 200, rows=2)
    steps = api.call("get", f"{JOB}/steps", queue="orders", id="payment-1")
    if "unknown" not in json.dumps(steps.json):
        yield f"no step is unknown: {steps.content!r}"


def measures(api):
    """The samples of a queue and the figures of its types are listed."""
    samples = api.call("get", f"{QUEUE}/stats", queue="orders", since="24h")
    yield from wanted(samples, 200, queue="orders")
    if len(samples.json["items"]) < 50 or not any(each["done"] for each in samples.json["items"]):
        yield f"the samples are {samples.content[:300]!r}"
    yield from wanted(api.call("get", f"{QUEUE}/stats/types", queue="orders"), 200, queue="orders")
    yield from wanted(api.call("get", f"{QUEUE}/stats/durations", queue="orders"), 200, queue="orders")
    yield from problem(api.call("get", f"{QUEUE}/stats", queue="orders", since="25h"), 422, "query.since")


def alerts(api, viewer, stage):
    """Incidents are listed and acknowledged, and a sink takes a test message."""
    incident = stage.incidents()["queue_paused"]
    body = {"for": "1h", "reason": "the stock is being counted"}
    ack = "/api/v1/incidents/{incident}/ack"
    yield from problem(viewer.call("post", ack, incident=incident, body=body), 403)
    yield from wanted(api.call("post", ack, incident=incident, body=body), 200, incident=incident)
    listed = {each["id"]: each for each in api.call("get", "/api/v1/incidents", all_=True).json["items"]}
    if (listed[incident]["acknowledged"] or {}).get("why") != body["reason"] or "0b5ff10c" not in listed:
        yield f"the incidents are {listed}"
    test = "/api/v1/alerts/sinks/{sink}/test"
    yield from problem(viewer.call("post", test, sink="ops"), 403)
    yield from wanted(api.call("post", test, sink="ops"), 200, sink="ops", accepted=True, answer="ok")
    yield from problem(api.call("post", test, sink="nobody"), 404)
    taken = [each for each in stage.sink.messages if "TEST" in json.dumps(each)]
    if len(taken) != 1:
        yield f"the sink has {len(taken)} test messages"


def changes(api):
    """A delayed job is edited by its revision, brought forward, and another one is cancelled."""
    read = api.call("get", JOB, queue="orders", id="later-8")
    revision = read.headers.get("etag")
    if not revision:
        yield f"a delayed job has no ETag: {read.headers}"
        return
    body = {"payload": {"lines": 2, "customer": 1}, "reason": "a line was missing"}
    yield from wanted(api.call("patch", JOB, queue="orders", id="later-8", if_match=revision, body=body), 200)
    stale = api.call("patch", JOB, queue="orders", id="later-8", if_match=revision, body=body)
    yield from wanted(stale, 412)
    yield from wanted(api.call("post", f"{JOB}/run-now", queue="orders", id="later-8", body={"reason": "it is wanted now"}), 200)
    yield from wanted(api.call("get", JOB, queue="orders", id="later-8", wait="60s"), 200, state="done")
    cancelled = api.call("post", f"{JOB}/cancel", queue="orders", id="later-7", body={"reason": "the customer cancelled it"})
    yield from wanted(cancelled, 200, state="cancelled")
    decide = f"{JOB}/steps/{{step}}/decide"
    verdict = {"verdict": "done", "reason": "the bank has it"}
    yield from wanted(api.call("post", decide, queue="orders", id="payment-1", step="charge", body=verdict), 200)
    yield from wanted(api.call("get", JOB, queue="orders", id="payment-1", wait="60s"), 200, state="done")


def replays(api, stage):
    """Dead letters are listed and grouped; one is replayed and succeeds, and another one is dropped."""
    letters = api.call("get", LETTERS, queue="mail", type="mail.send").json["items"]
    if len(letters) != DEAD:
        yield f"there are {len(letters)} dead letters, not {DEAD}"
    groups = api.call("get", f"{LETTERS}/groups", queue="mail").json["items"]
    if not any(each["count"] == DEAD for each in groups):
        yield f"no group has {DEAD} letters: {groups}"
    stage.repair()
    # The letter of a running campaign is its own.
    first, second = [each for each in letters if each["id"] != "mail-7"][:2]
    replay = api.call("post", f"{LETTER}/replay", queue="mail", letter=first["letter"], body={"reason": "the mail server is repaired"})
    yield from wanted(replay, 200)
    yield from wanted(api.call("get", JOB, queue="mail", id=first["id"], wait="60s"), 200, state="done")
    yield from wanted(api.call("post", f"{LETTER}/drop", queue="mail", letter=second["letter"], body={"reason": "a test"}), 200)
    gone = api.call("get", LETTER, queue="mail", letter=second["letter"])
    yield from wanted(gone, 404)
    audit = api.call("get", f"{QUEUE}/audit", queue="mail")
    if "the mail server is repaired" not in audit.content.decode():
        yield "the audit does not have the reason of the replay"


def refuses(api, viewer, stranger):
    """What is wrong is refused with a problem that names the field, and nobody does what their role does not allow."""
    wrong = api.call("post", JOBS, queue="orders", body={"type": "order.import", "lane": "fast"})
    yield from problem(wrong, 422, "/lane")
    yield from problem(api.call("get", JOBS, queue="orders", limit=1000), 422, "query.limit")
    yield from problem(api.call("get", QUEUE, queue="Or ders"), 422, "path.queue")
    yield from problem(api.call("get", JOB, queue="orders", id="nobody-knows-it"), 404)
    yield from problem(viewer.call("post", JOBS, queue="orders", body={"type": "order.import"}), 403)
    yield from problem(stranger.call("get", "/api/v1/queues"), 401)
    hidden = viewer.call("get", JOB, queue="mail", id="mail-2")
    if b"ann2@example.com" in hidden.content:
        yield "a viewer sees a payload"


def problem(answer, status, field=None):
    """Yields how an answer differs from a problem document about a field."""
    yield from wanted(answer, status)
    if answer.media_type != "application/problem+json":
        yield f"{status}: it is {answer.media_type}, not a problem document"
    elif {"type", "title", "status", "detail"} - answer.json.keys():
        yield f"{status}: the problem lacks a member: {answer.json}"
    elif field and field not in [each["at"] for each in answer.json.get("errors", [])]:
        yield f"{status}: the problem does not name {field}: {answer.json}"


def streams(api):
    """Many jobs are submitted line by line, and events arrive while they happen."""
    seen, ready = [], threading.Event()
    client = api.client.get_httpx_client()

    def follow():
        with client.stream("GET", "/api/v1/queues/orders/events", timeout=SOON, headers={"accept": "text/event-stream"}) as answer:
            seen.append(f"status {answer.status_code} {answer.headers.get('content-type')}")
            ready.set()
            deadline = time.monotonic() + SOON
            for line in answer.iter_lines():
                seen.append(line)
                if "streamed-2" in line or time.monotonic() > deadline:
                    return

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    ready.wait(SOON)
    lines = [{"type": "order.import", "id": f"streamed-{number}", "payload": {"lines": 1}} for number in (1, 2)]
    body = "\n".join([json.dumps(lines[0]), "{}", json.dumps(lines[1])])
    answer = client.post("/api/v1/queues/orders/jobs", content=body, headers={"content-type": "application/x-ndjson"})
    fates = [json.loads(line) for line in answer.text.splitlines()]
    if answer.status_code != 200 or len(fates) != 4 or fates[-1].get("accepted") != 2 or fates[-1].get("rejected") != 1:
        yield f"three lines, one of them wrong, get the answer {answer.status_code} {answer.text}"
    follower.join(SOON)
    if not seen or not seen[0].startswith("status 200 text/event-stream"):
        yield f"the events are {seen[:1]}"
    elif not any("streamed-2" in line for line in seen):
        yield f"the event of a job does not arrive: {seen[-5:]}"
