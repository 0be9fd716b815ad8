"""The fleet of a night on call. What an operator changes exists twice: once for the console, and once for `top`."""

import json
import urllib.request

from proof.process import until

from .fleet import HERE, SOON, Stage

# How somebody may solve a situation.
WAYS = ("console", "top")
# Of which causes the mails died that are replayed; the handler of `mail.send` knows twelve.
CAUSE = {"console": "an address needs an @", "top": "no template has this name"}
# Which jobs are moved.
WARMED = {"console": "cache.warm", "top": "cache.clear"}
# Whose mail is nearly the last of those that wait, and whose jobs nobody wants any more.
CUSTOMER, TENANT = "kim.larsen@example.com", "acme"
# What somebody did yesterday.
BEFORE = {"what": "pause", "who": "ann", "why": "the warehouse counts its stock", "target": "type:order.import"}
BEFORE_S = 26 * 3600
# How many jobs one call adds, so that Redis goes on answering.
AT_ONCE = 5_000
# Adds jobs from one number to another. `{n}` in a text is the number, `{cause}` its cause.
ADD = """
for number = tonumber(ARGV[1]), tonumber(ARGV[2]) do
  local fields = {}
  for nth = 3, #ARGV do
    local text = ARGV[nth]:gsub('{n}', number):gsub('{cause}', number % 12)
    table.insert(fields, text)
  end
  redis.call('XADD', KEYS[1], '*', unpack(fields))
end
"""


class Night(Stage):
    """Five queues, nine types, three workers, and every trouble of the twelve situations."""

    config, handlers, workers, past, has_history = HERE / "night.toml", HERE / "mailer.py", 3, (), False

    def api(self, path):
        """Returns what the API answers."""
        request = urllib.request.Request(f"{self.url}/api/v1{path}", headers={"Authorization": f"Bearer {self.tokens['admin']}"})
        with urllib.request.urlopen(request, timeout=SOON) as answer:
            return json.load(answer)

    def fill(self, mails):
        """Prepares all situations. So many mails wait; a tenth of that is dead, and a twentieth is of one tenant."""
        self.mails = mails
        self._yesterday()
        self.streamfleet("pause", "--queue", "bulk", "--reason", "the archive is full")
        self._add("mail", mails // 10, type="mail.send", id="letter-{n}", payload='{"to":"customer {n}","cause":{cause}}')
        self._bulk("orders", [{"type": "order.import", "id": f"order-{n}", "delay": f"{n}h", "payload": {"customer": n}} for n in range(1, 9)])
        for way in WAYS:
            self._bulk("payments", [{"type": "payment.settle", "id": f"payment-{way}", "payload": {"cents": 1999}}])
            self._bulk("reports", [{"type": "report.generate", "id": f"report-{way}", "payload": {"region": "east"}}])
        self._add("bulk", mails // 20, **{"type": "tenant.export", "id": "export-{n}", "payload": '{"part":{n}}', "h.tenant": TENANT})
        self._add("bulk", mails // 100, **{"type": "tenant.export", "id": "other-{n}", "payload": '{"part":{n}}', "h.tenant": "shop-{cause}"})
        for job_type in WARMED.values():
            self._add("bulk", mails // 20, type=job_type, id=f"{job_type.rpartition('.')[2]}-{{n}}", payload='{"page":{n}}')
        until("dead letters", lambda: self.api("/queues/mail")["dead"] >= mails // 10, SOON)
        until("a step to decide about", lambda: len(self.api("/decisions")["items"]) == len(WAYS), SOON)
        self.until_state("reports", "running", len(WAYS))
        # Which worker is drained by which way.
        self.names = dict(zip(WAYS, sorted(each["consumer"] for each in self.api("/workers")["items"]), strict=False))
        self._newsletters(mails)
        wanted = {"dead_group", "needs_decision", "queue_paused"}
        until("incidents", lambda: wanted <= self.incidents().keys(), SOON)

    def _newsletters(self, mails):
        """Lets mails wait for the rate of their type. One of the last is that of the customer."""
        payload = '{"to":"customer{n}@example.com","subject":"News of November"}'
        self._add("mail", mails - 3, type="mail.newsletter", id="news-{n}", payload=payload)
        self._bulk("mail", [{"type": "mail.newsletter", "id": "news-wanted", "payload": {"to": CUSTOMER, "subject": "News of November"}}])
        self._add("mail", 2, type="mail.newsletter", id="news-last-{n}", payload=payload)

        def is_held():
            cause = self.api("/queues/mail").get("cause") or {}
            return cause.get("kind") == "held" and cause.get("jobs", 0) > mails * 0.9

        until("the mails to wait for their rate", is_held, SOON)

    def _yesterday(self):
        """Writes what people did yesterday into the audit, before anything else is there."""
        now = int(self.redis("TIME").split()[0])
        fields = [word for pair in BEFORE.items() for word in pair]
        self.redis("XADD", "sf:{orders}:audit", f"{(now - BEFORE_S) * 1000}-0", *fields, "call", "1")
        for nth in range(200):
            noise = {"what": "dead replay", "who": "deploy", "why": "", "target": f"--type mail.send --batch {nth}", "call": str(nth)}
            words = [word for pair in noise.items() if pair[1] for word in pair]
            self.redis("XADD", "sf:{mail}:audit", f"{(now - 2 * BEFORE_S + nth * 600) * 1000}-0", *words)

    def _add(self, queue, count, **fields):
        """Adds jobs to a lane, as a producer without a library does."""
        words = [word for pair in fields.items() for word in pair]
        for first in range(1, count + 1, AT_ONCE):
            self.redis("EVAL", ADD, "1", f"sf:{{{queue}}}:jobs", str(first), str(min(first + AT_ONCE - 1, count)), *words)
