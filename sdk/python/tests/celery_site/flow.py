"""Calls the tasks of shop.py, and prints what came of it as JSON, without what differs from run to run."""

import json
import sys
import time
from datetime import datetime, timedelta, timezone

from shop import FOLDER, add, chain, charge, chord, fetch, give_up, group, later, send, total

TIMEOUT = float(sys.argv[1])


def ended(result):
    try:
        value = result.get(timeout=TIMEOUT)
    except Exception as error:
        # Ids differ.
        value = f"{type(error).__name__}: {error}".split("[")[0]
    return {"value": value, "state": result.state, "successful": result.successful(), "failed": result.failed()}


results = {
    "delay": add.delay(2, 3),
    "retries": send.apply_async(("ann@example.com",), {"subject": "Welcome"}),
    "autoretry": fetch.delay("example.com"),
    "gives up": give_up.delay(),
    "charged": charge.delay(7),
    "declined": charge.apply_async((101,), priority=9),
    "countdown": later.apply_async((time.time(),), countdown=1.5),
    "eta": later.apply_async((time.time(),), eta=datetime.now(timezone.utc) + timedelta(seconds=1.5)),
    "id": add.apply_async((1, 1), task_id="my-own-id"),
    "chain": chain(add.s(2, 2), add.s(4), add.si(7, 1), add.s(10))(),
    "pipe": (add.s(1, 1) | add.s(5)).apply_async(),
    "link": add.apply_async((1, 1), link=add.s(8)),
    "chain that fails": chain(charge.s(101), total.s())(),
}
seen = {name: ended(result) for name, result in results.items() if name not in ("link", "chain that fails")}
seen["first of the chain that fails"] = results["chain that fails"].state in ("PENDING", "FAILURE")
seen["own id"] = results["id"].id
seen["group"] = group(add.s(n, n) for n in range(4))().get(timeout=TIMEOUT)
seen["chord"] = ended(chord([add.s(n, n) for n in range(4)])(total.s()))
seen["called"] = add(2, 2)
seen["mails"] = (FOLDER / "mails").read_text()
print(json.dumps(seen, indent=1))
