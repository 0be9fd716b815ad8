"""python3 covered.py RULES TESTS: checks that each alert fires in one test, and stays silent in another that has its metrics."""

import re
import sys

import yaml

METRIC = re.compile(r"\b(?:namespace_queue:)?(?:streamfleet|process)_\w+(?::\w+)?|\bup\b")
FIRING = 'ALERTS{alertstate="firing"'
SAMPLE = re.compile(r'(\w+)="([^"]*)"')


def main(rules, tests):
    groups = read(rules)["groups"]
    every = [rule for group in groups for rule in group["rules"]]
    recorded = {rule["record"]: rule["expr"] for rule in every if "record" in rule}
    asked = list(questions(read(tests)["tests"]))
    problems = []
    for rule in every:
        if "alert" not in rule:
            continue
        name, severity = rule["alert"], rule["labels"]["severity"]
        needed = figures(rule["expr"], recorded)
        if not any((name, severity) in fired for _, fired in asked):
            problems.append(f"{name}, {severity}: fires in no test")
        if not any(needed <= given and (name, severity) not in fired for given, fired in asked):
            problems.append(f"{name}, {severity}: it is silent in no test that has its metrics")
    sys.exit("\n".join(problems) if problems else None)


def read(path):
    """Returns the content of a YAML file."""
    with open(path, encoding="utf-8") as file:
        return yaml.safe_load(file)


def figures(expression, recorded):
    """Returns the metrics that an expression uses, directly or through recording rules."""
    found = set()
    for name in METRIC.findall(expression):
        found |= figures(recorded[name], recorded) if name in recorded else {name}
    return found


def questions(tests):
    """Yields, for each query of all firing alerts, the metrics that the test has and the alerts that must fire."""
    for test in tests:
        given = {re.match(r"[\w:]+", each["series"])[0] for each in test["input_series"]}
        for question in test.get("promql_expr_test", []):
            if FIRING not in question["expr"]:
                continue
            samples = [dict(SAMPLE.findall(each["labels"])) for each in question.get("exp_samples") or []]
            yield given, {(labels.get("alertname"), labels.get("severity")) for labels in samples}


if __name__ == "__main__":
    main(*sys.argv[1:])
