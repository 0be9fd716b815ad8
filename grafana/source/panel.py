"""The building blocks of the dashboards: variables, panels, rows, and their conversion to Grafana's JSON.

The content is in fleet.py, queue.py, dead.py and redis.py.
"""

from dataclasses import dataclass, field

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH = 24
GREEN, YELLOW, RED = "green", "yellow", "red"


@dataclass
class Query:
    """An expression, and the name of its series. An objective is drawn as a dashed line."""

    expr: str
    legend: str = ""
    objective: bool = False


@dataclass
class Panel:
    """One panel. `width` is out of 24; `steps` are pairs of (from, colour)."""

    title: str
    kind: str
    unit: str
    description: str
    queries: list
    width: int = 8
    height: int = 8
    steps: list = field(default_factory=list)
    stacked: bool = False
    columns: dict = field(default_factory=dict)
    link: dict | None = None
    max: float | None = None


def stat(title, unit, description, expr, steps=(), link=None):
    """One current number."""
    return Panel(title, "stat", unit, description, [Query(expr)], width=4, height=4, steps=list(steps), link=link)


def lines(title, unit, description, *queries, **more):
    """Figures over time. A query is a pair of an expression and a legend, or a Query."""
    made = [each if isinstance(each, Query) else Query(*each) for each in queries]
    return Panel(title, "timeseries", unit, description, made, **more)


def heatmap(title, unit, description, expr, **more):
    """The buckets of a histogram over time."""
    return Panel(title, "heatmap", unit, description, [Query(expr, "{{le}}")], **more)


def table(title, description, columns, link=None, **more):
    """One row per value of the label that all expressions group by. `columns` maps a heading to (unit, expression)."""
    queries = [Query(expr) for _, expr in columns.values()]
    headings = {heading: unit for heading, (unit, _) in columns.items()}
    return Panel(title, "table", "short", description, queries, columns=headings, link=link, **more)


def to_dashboard(name, more):
    """A link to another of these dashboards, with the time and the variables of this one."""
    return {"title": f"Open {name}", "url": f"/d/streamfleet-{name}?${{__url_time_range}}&${{datasource:queryparam}}&{more}"}


def dashboard(name, title, description, variables, rows):
    """Grafana's JSON for rows of panels, laid out from left to right."""
    panels, top = [], 0
    for heading, members in rows:
        panels.append(_row(len(panels) + 1, heading, top))
        top += 1
        left = height = 0
        for member in members:
            if left + member.width > WIDTH:
                left, top, height = 0, top + height, 0
            place = {"h": member.height, "w": member.width, "x": left, "y": top}
            panels.append(_panel(len(panels) + 1, member, place))
            left, height = left + member.width, max(height, member.height)
        top += height
    return {
        "uid": f"streamfleet-{name}",
        "title": f"streamfleet / {title}",
        "description": description,
        "tags": ["streamfleet"],
        "editable": False,
        "graphTooltip": 1,
        "schemaVersion": 42,
        "version": 1,
        "refresh": "30s",
        "timezone": "browser",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": variables},
        "annotations": {"list": [_deploys()]},
        "links": [_others()],
        "panels": panels,
    }


def datasource():
    """The variable that selects the Prometheus."""
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}}


def variable(name, label, metric, multi=True):
    """A variable with the values of a label. All also matches series without the label, as outside Kubernetes."""
    query = f"label_values({metric}, {name})"
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": "values"},
        "refresh": 2,
        "sort": 1,
        "options": [],
        "multi": multi,
        "includeAll": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]} if multi else {"text": "All", "value": "$__all"},
    }


def _deploys():
    """Marks a version that did not run two minutes ago."""
    here = 'count by (version, revision) (streamfleet_build_info{namespace=~"$namespace"}%s)'
    expr = f"{here % ''} unless {here % ' offset 2m'}"
    return {
        "name": "Deploys",
        "datasource": SOURCE,
        "enable": True,
        "iconColor": "blue",
        "expr": expr,
        "target": {"expr": expr, "interval": "60s", "refId": "deploys"},
        "titleFormat": "Deploy",
        "textFormat": "streamfleet {{version}} {{revision}}",
        "step": "60s",
        "useValueForTime": False,
    }


def _others():
    return {
        "title": "streamfleet",
        "type": "dashboards",
        "tags": ["streamfleet"],
        "asDropdown": False,
        "includeVars": True,
        "keepTime": True,
    }


def _row(number, heading, top):
    place = {"h": 1, "w": WIDTH, "x": 0, "y": top}
    return {"id": number, "type": "row", "title": heading, "collapsed": False, "gridPos": place, "panels": []}


def _panel(number, panel, place):
    defaults = {"unit": panel.unit, "thresholds": _thresholds(panel.steps)}
    if panel.max is not None:
        defaults.update(min=0, max=panel.max)
    if panel.kind == "timeseries":
        defaults.setdefault("min", 0)
        defaults["custom"] = {
            "fillOpacity": 30 if panel.stacked else 5,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stacked else "none"},
            "thresholdsStyle": {"mode": "line" if panel.steps else "off"},
        }
    if panel.link:
        defaults["links"] = [panel.link]
    made = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": _overrides(panel)},
        "options": _options(panel),
        "targets": [_target(at, panel.kind, query) for at, query in enumerate(panel.queries)],
    }
    return {**made, "transformations": _joined(panel)} if panel.kind == "table" else made


def _thresholds(steps):
    return {"mode": "absolute", "steps": [{"color": colour, "value": at} for at, colour in [(None, GREEN), *steps]]}


def _target(at, kind, query):
    instant = kind in ("stat", "table")
    return {
        "refId": chr(ord("A") + at),
        "datasource": SOURCE,
        "expr": query.expr,
        "legendFormat": query.legend or "__auto",
        "format": kind if kind in ("heatmap", "table") else "time_series",
        "instant": instant,
        "range": not instant,
    }


def _options(panel):
    kind = panel.kind
    if kind == "stat":
        return {"colorMode": "value", "graphMode": "none", "reduceOptions": {"calcs": ["lastNotNull"]}}
    if kind == "timeseries":
        legend = {"displayMode": "table", "placement": "bottom", "showLegend": True, "calcs": ["lastNotNull", "max"]}
        return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
    if kind == "heatmap":
        return {"calculate": False, "cellGap": 1, "color": {"scheme": "Oranges", "mode": "scheme"}, "yAxis": {"unit": panel.unit}}
    return {"showHeader": True}


def _overrides(panel):
    dashed = [
        {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [8, 8]}},
        {"id": "custom.fillOpacity", "value": 0},
        {"id": "custom.stacking", "value": {"mode": "none"}},
    ]
    objectives = [
        {"matcher": {"id": "byFrameRefID", "options": chr(ord("A") + at)}, "properties": dashed}
        for at, query in enumerate(panel.queries)
        if query.objective
    ]
    units = [
        {"matcher": {"id": "byName", "options": heading}, "properties": [{"id": "unit", "value": unit}]}
        for heading, unit in panel.columns.items()
    ]
    return objectives + units


def _joined(panel):
    """Joins the results of a table's queries, with headings."""
    headings = list(panel.columns)
    renamed = {f"Value #{chr(ord('A') + at)}": heading for at, heading in enumerate(headings)}
    return [
        {"id": "merge", "options": {}},
        {"id": "organize", "options": {"excludeByName": {"Time": True}, "renameByName": renamed}},
        {"id": "sortBy", "options": {"sort": [{"field": headings[0], "desc": True}]}},
    ]
