"""Checks dashboards and rules: panels have what a reader needs, and every expression returns data."""

import re

from .catalogue import grouped
from .process import Wrong

SELECTOR = re.compile(r"\b((?:streamfleet|process|namespace_queue:streamfleet)_\w+(?::\w+)?)(\{[^}]*\})?")
ALTERNATIVES = re.compile(r'(\w+)=~"(\w+(?:\|\w+)+)"')
WIDTH = 24

# Expressions that are 0 while nothing is wrong.
CALM = re.compile(r"vector\(0\)|bodies_lost|groups_recreated|hook_failures|events_dropped|redis_errors|reconnects|cron_skipped"
                  r"|cron_overdue|queue_overdue|leases_lost|fenced|panic|history_(errors|lost|spilled)|outbox_(errors|oldest|refused|rows_refused|waiting)")  # fmt: skip


def panels(dashboard):
    """Returns all panels except the headings."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def shape(dashboard):
    """Yields what is wrong with a dashboard, without data."""
    for key in ("uid", "title", "description", "schemaVersion", "links"):
        if not dashboard.get(key):
            yield f"it has no {key}"
    if not re.fullmatch(r"streamfleet-[a-z]+", dashboard.get("uid", "")):
        yield f"its uid {dashboard.get('uid')} does not have the form streamfleet-<name>"
    ids = [panel["id"] for panel in dashboard["panels"]]
    if len(ids) != len(set(ids)):
        yield "two panels have the same id"
    for one, other in overlapping(dashboard["panels"]):
        yield f"'{one}' overlaps '{other}'"
    for panel in panels(dashboard):
        for complaint in panel_shape(panel):
            yield f"panel '{panel.get('title') or panel['id']}': {complaint}"
    for each in dashboard["templating"]["list"]:
        if each["type"] == "query" and each.get("includeAll") and each.get("allValue") != ".*":
            yield f"variable {each['name']}: All would omit series without the label"


def panel_shape(panel):
    """Yields what is wrong with one panel."""
    for key in ("title", "description"):
        if not panel.get(key, "").strip():
            yield f"it has no {key}"
    if not panel["fieldConfig"]["defaults"].get("unit"):
        yield "it has no unit"
    if not panel["targets"]:
        yield "it has no queries"
    for each in [panel, *panel["targets"]]:
        if each.get("datasource", {}).get("uid") != "${datasource}":
            yield "its data source is not the variable"
    for target in panel["targets"]:
        yield from expression_shape(target["expr"])


def expression_shape(expression):
    """Yields what is wrong with an expression."""
    for window in re.findall(r"(?:rate|increase)\([^\[]*\[([^\]]*)\]", expression):
        if window not in ("$__rate_interval", "$__range", "1h", "6h"):
            yield f"a rate over {window} instead of $__rate_interval: {expression}"


def overlapping(all_panels):
    """Yields pairs of panels that overlap, and panels that extend beyond the right edge."""
    places = [(panel.get("title"), panel["gridPos"]) for panel in all_panels]
    for at, (one, a) in enumerate(places):
        if a["x"] + a["w"] > WIDTH:
            yield one, "the edge"
        for other, b in places[at + 1 :]:
            if a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"] and a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"]:
                yield one, other


def answered(prometheus, dashboard, seconds):
    """Yields queries and annotations of a dashboard that return no data."""
    labels = set(prometheus.ask("labels"))
    for panel in panels(dashboard):
        for target in panel["targets"]:
            for complaint in unanswered(prometheus, target, seconds, labels):
                yield f"panel '{panel['title']}': {complaint}"
    for each in dashboard["annotations"]["list"]:
        if not prometheus.over_time(each["expr"], seconds + 30):
            yield f"annotation {each['name']}: no data: {each['expr']}"


def unanswered(prometheus, target, seconds, labels):
    """Yields what is wrong with the result of one query."""
    expression = target["expr"]
    try:
        found = prometheus.instant(expression) if target["instant"] else prometheus.over_time(expression, seconds)
    except Wrong as wrong:
        yield f"{wrong}: {expression}"
        return
    if not found:
        yield f"no data: {expression}"
    elif not any(found) and not CALM.search(expression):
        yield f"all values are 0: {expression}"
    yield from unmatched(prometheus, expression)
    used = set(re.findall(r"{{(\w+)}}", target["legendFormat"])) | grouped(expression)
    for label in sorted(used - labels - {"namespace"}):
        yield f"no series has the label {label}: {expression}"


def unmatched(prometheus, expression):
    """Yields selectors, and label values named in them, that match no series."""
    for metric, matchers in SELECTOR.findall(expression):
        selector = metric + matchers
        if not prometheus.instant(f"last_over_time({selector}[5m])"):
            yield f"no series: {selector}"
        for label, values in ALTERNATIVES.findall(matchers):
            for value in values.split("|"):
                if not prometheus.instant(metric + "{" + f'{label}="{value}"' + "}"):
                    yield f"no series: {metric} with {label} {value}"


def variables(prometheus, dashboard, absent=()):
    """Yields template variables without values. Those in `absent` must have none."""
    for each in dashboard["templating"]["list"]:
        if each["type"] != "query":
            continue
        selector, label = re.fullmatch(r"label_values\((.*),\s*(\w+)\)", each["definition"]).groups()
        found = prometheus.values(label, selector)
        if bool(found) == (each["name"] in absent):
            yield f"variable {each['name']}: {'values' if found else 'no values'}: {each['definition']}"


def foreign(catalogue, dashboard):
    """Yields what a dashboard queries that is not in the catalogue."""
    for panel in panels(dashboard):
        for target in panel["targets"]:
            for complaint in catalogue.foreign(target["expr"]):
                yield f"panel '{panel['title']}': {complaint}"
    for each in [*dashboard["templating"]["list"], *dashboard["annotations"]["list"]]:
        for complaint in catalogue.foreign(each.get("expr") or each.get("definition", "")):
            yield f"{each['name']}: {complaint}"


def foreign_rules(catalogue, groups):
    """Yields what rules query that is not in the catalogue."""
    for group in groups:
        for rule in group["rules"]:
            for complaint in catalogue.foreign(rule["query"]):
                yield f"{rule['name']}: {complaint}"


def rules(prometheus, groups):
    """Yields rules that fail to evaluate, and selectors in rules that match no series."""
    for group in groups:
        for rule in group["rules"]:
            if rule["health"] != "ok":
                yield f"{rule['name']}: {rule.get('lastError') or rule['health']}"
            for complaint in unmatched(prometheus, rule["query"]):
                yield f"{rule['name']}: {complaint}"
