"""A real Prometheus that scrapes the fleet, and queries to it."""

import json
import math
import time
import urllib.error
import urllib.parse
import urllib.request

from .process import Wrong, answers, until

# The values that Grafana would use for a scrape every second.
VARIABLES = {
    "${__url_time_range}": "",
    "$__rate_interval": "20s",
    "$__interval": "5s",
    "$__range": "60s",
    "$namespace": ".*",
    "$queue": ".*",
    "$job_type": ".*",
}


class Prometheus:
    """One server. If there are `labels`, every target has them, as in Kubernetes."""

    def __init__(self, programs, name, port, targets, labels=None, rules=None, alertmanager=None):
        self.address = f"http://127.0.0.1:{port}"
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "scrape_configs": [
                {
                    "job_name": "streamfleet",
                    "static_configs": [
                        {"targets": [target], "labels": {**labels, "pod": f"worker-{at}"} if labels else {}}
                        for at, target in enumerate(targets, 1)
                    ],
                }
            ],
            "rule_files": [str(rules)] if rules else [],
        }
        if alertmanager:
            config["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]}
        # JSON is YAML.
        path = programs.folder / f"{name}.yml"
        path.write_text(json.dumps(config))
        data = programs.folder / f"{name}-data"
        options = [f"--storage.tsdb.path={data}", f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
        programs.start(name, ["prometheus", f"--config.file={path}", *options])
        until(name, lambda: answers(port) and self.ready())

    def ready(self):
        """Returns whether it answers queries."""
        try:
            return urllib.request.urlopen(f"{self.address}/-/ready", timeout=5).status == 200
        except OSError:
            return False

    def ask(self, path, **parameters):
        """Returns the answer of its HTTP API."""
        url = f"{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters, doseq=True)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise Wrong(json.load(error).get("error", str(error))) from error

    def instant(self, expression):
        """Returns the current values."""
        found = self.ask("query", query=fill(expression))["result"]
        return real(each["value"] for each in found)

    def over_time(self, expression, seconds, step=2):
        """Returns the values of the last seconds."""
        now = time.time()
        found = self.ask("query_range", query=fill(expression), start=now - seconds, end=now, step=step)["result"]
        return real(value for each in found for value in each["values"])

    def values(self, label, selector):
        """Returns the values of a label."""
        return self.ask(f"label/{label}/values", **{"match[]": fill(selector)})


def fill(expression):
    """Returns the expression with Grafana's variables replaced."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def real(samples):
    """Returns the values that can be drawn, without NaN."""
    numbers = [float(value) for _, value in samples]
    return [number for number in numbers if not math.isnan(number)]
