"""The catalogue of the program's metrics (`streamfleet metrics --json`), and a check of expressions against it."""

import json
import re
import subprocess

from .process import Wrong

METRIC = re.compile(r"(?<![:\w])((?:streamfleet|process)_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
GROUPING = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")

# Labels that Prometheus adds when it scrapes.
ADDED = {"namespace", "job", "instance", "pod"}
SUFFIX = re.compile(r"_(?:bucket|sum|count)$")

# What stands before a series of which the maximum is taken.
MAXIMUM = re.compile(r"\bmax\s*(?:by \([^)]*\) )?\((?:max_over_time\()?$")


class Catalogue:
    """All metrics, with their labels and the values of these."""

    def __init__(self, program):
        done = subprocess.run([program, "metrics", "--json"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Wrong(f"streamfleet metrics: {done.stderr}")
        self.metrics = {each["name"]: each for each in json.loads(done.stdout)["items"]}

    def find(self, name):
        """Returns the metric of a series, which may be part of a histogram."""
        whole = self.metrics.get(SUFFIX.sub("", name))
        if whole and whole["kind"] == "histogram":
            return whole
        return self.metrics.get(name)

    def foreign(self, expression):
        """Yields unknown metrics, labels and label values, and gauges of the leader that are not queried as a maximum."""
        labels = ADDED | ({"queue"} if "namespace_queue:" in expression else set())
        for found in METRIC.finditer(expression):
            name, matchers = found[1], found[2] or ""
            metric = self.find(name)
            if not metric:
                yield f"there is no metric {name}: {expression}"
                continue
            own = {each["name"]: each.get("values", []) for each in metric["labels"]}
            labels |= own.keys() | ({"le"} if metric["kind"] == "histogram" else set())
            yield from self._matchers(name, own, matchers)
            if self._needs_max(metric) and not MAXIMUM.search(expression[: found.start()]):
                yield f"{name} is reported by the leader, but not queried as a maximum: {expression}"
        for label in sorted(grouped(expression) - labels):
            yield f"none of its metrics has the label {label}: {expression}"

    @staticmethod
    def _matchers(name, own, matchers):
        for label, _, wanted in MATCHER.findall(matchers):
            if label not in own and label not in ADDED:
                yield f"{name} has no label {label}"
            for value in wanted.split("|") if own.get(label) and re.fullmatch(r"[\w|]+", wanted) else []:
                if value not in own[label]:
                    yield f"{name}: {label} is never {value}, only one of {', '.join(own[label])}"

    @staticmethod
    def _needs_max(metric):
        return metric["reported_by"] == "leader" and metric["kind"] == "gauge"


def grouped(expression):
    """Returns the labels that an expression groups or joins by."""
    return {label.strip() for found in GROUPING.findall(expression) for label in found.split(",") if label.strip()}
