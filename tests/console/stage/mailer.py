"""The handler of the pool `mailer`: mails without an address die, each of one of twelve causes, until somebody repairs the mailer."""

import pathlib
import time

from streamfleet import job

CAUSES = (
    ("ValueError", "an address needs an @"),
    ("LookupError", "no template has this name"),
    ("ConnectionError", "the relay closes the connection"),
    ("TimeoutError", "the relay is silent"),
    ("PermissionError", "the relay refuses the sender"),
    ("KeyError", "the payload has no subject"),
    ("UnicodeError", "the subject is not valid UTF-8"),
    ("RuntimeError", "the attachment store is closed"),
    ("OverflowError", "the attachment is too large"),
    ("ArithmeticError", "the invoice does not add up"),
    ("FileNotFoundError", "the logo is missing"),
    ("InterruptedError", "the spooler restarts"),
)
# A mail that was repaired takes so long: long enough for somebody to look at a canary, and to stop it.
SLOW_SECONDS = 20


@job("mail.send")
def send(job):
    if "@" in job.payload["to"]:
        return {"sent": True}
    if not pathlib.Path("repaired").exists():
        name, text = CAUSES[job.payload["cause"]]
        raise type(name, (Exception,), {})(text)
    deadline = time.monotonic() + SLOW_SECONDS
    while time.monotonic() < deadline and not job.cancelled:
        time.sleep(0.1)
    return {"sent": True}
