#!/usr/bin/env python3
"""Writes dashboards/*.json from source/. With --check, it writes nothing and fails if they differ."""

import json
import pathlib
import sys

from source import dead, fleet, queue, redis

FOLDER = pathlib.Path(__file__).parent / "dashboards"
BUILT = {"fleet": fleet.build, "queue": queue.build, "dead": dead.build, "redis": redis.build}


def main(arguments):
    stale = []
    for name, build in BUILT.items():
        path = FOLDER / f"{name}.json"
        text = json.dumps(build(), indent=2, ensure_ascii=False) + "\n"
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
    stale += [path.name for path in FOLDER.glob("*.json") if path.stem not in BUILT]
    if stale:
        sys.exit(f"out of date, run grafana/dashboards.py: {', '.join(stale)}")


if __name__ == "__main__":
    main(sys.argv[1:])
