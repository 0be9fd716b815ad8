#!/usr/bin/env python3
"""Validates objects of KEDA and of the Prometheus operator against their definitions, including unknown keys.

usage: custom_resources.py RENDERED.yaml…

The definitions are Python classes for KEDA 2.16 and operator 0.80. By default these classes accept unknown keys; here they do not. Prints
one line per problem, and exits with 1 if there is any. Loading the classes takes seconds, so one call checks all files.
"""

import importlib
import json
import sys

import pydantic
import yaml
from cloudcoil.pydantic import BaseModel

# This must come before the classes are created, because they inherit it.
BaseModel.model_config.update(extra="forbid", populate_by_name=False)

CLASSES = {
    "keda.sh/v1alpha1": "cloudcoil.models.keda.v1alpha1",
    "monitoring.coreos.com/v1": "cloudcoil.models.prometheus_operator.v1",
}
# Keys that only later versions have.
NEWER = {"spec.fallback.behavior"}


def problems(found):
    place = f"{found['kind']} {found['metadata']['name']}"
    kind = getattr(importlib.import_module(CLASSES[found["apiVersion"]]), found["kind"], None)
    if kind is None:
        return [f"{place}: {found['apiVersion']} has no kind {found['kind']}"]
    try:
        kind.model_validate_json(json.dumps(found), strict=True)
    except pydantic.ValidationError as wrong:
        said = [(".".join(map(str, each["loc"])), each["msg"]) for each in wrong.errors()]
        return [f"{place}: {key}: {why}" for key, why in said if key not in NEWER]
    return []


def main(files):
    said = []
    for name in files:
        with open(name, encoding="utf-8") as file:
            objects = [each for each in yaml.safe_load_all(file) if each and each["apiVersion"] in CLASSES]
        said += [problem for found in objects for problem in problems(found)]
    for problem in said:
        print(problem)
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
