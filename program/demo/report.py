#!/usr/bin/env python3
"""The handler of report.year: one year of one measure, as a Markdown table of its months.

streamfleet runs it once per job (`exec`): the payload arrives on standard input, the exit code decides what happens next
(0: done; 65: the job can never succeed; any other: retry), and standard output becomes the job's result.
It uses only the standard library.
"""

import csv
import json
import os
import sys

DATA_ERROR = 65  # sysexits.h EX_DATAERR: streamfleet buries the job at once
UNITS = {"precipitation": "mm", "temp_max": "°C", "temp_min": "°C", "wind": "m/s"}


def values_by_month(path, year, measure):
    months = {}
    with open(path, newline="", encoding="utf-8") as table:
        for day in csv.DictReader(table):
            day_year, month, _ = day["date"].split("/")
            if int(day_year) == year:
                months.setdefault(int(month), []).append(float(day[measure]))
    return months


def report(year, measure, months):
    unit = UNITS[measure]
    lines = [
        f"# Seattle, {year}: {measure} ({unit})",
        "",
        "| month | days | mean | min | max |",
        "|---|---|---|---|---|",
    ]
    for month, values in sorted(months.items()):
        mean = sum(values) / len(values)
        lines.append(f"| {month} | {len(values)} | {mean:.2f} | {min(values):.1f} | {max(values):.1f} |")
    return "\n".join(lines) + "\n"


def write(path, text):
    """Writes the file completely or not at all: a worker may be killed at any time, and the job then runs again."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    draft = f"{path}.{os.getpid()}.draft"
    with open(draft, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(draft, path)


def main():
    try:
        payload = json.load(sys.stdin)
        year, measure = int(payload["year"]), payload["measure"]
        if measure not in UNITS:
            raise ValueError(f"no such measure: {measure!r}")
    except (ValueError, KeyError, TypeError) as error:
        print(f"invalid payload: {error!r}", file=sys.stderr)
        return DATA_ERROR
    months = values_by_month("seattle-weather.csv", year, measure)
    if not months:
        print(f"the table has no days in {year}", file=sys.stderr)
        return DATA_ERROR
    path = f"reports/year/{year}-{measure}.md"
    write(path, report(year, measure, months))
    print(json.dumps({"report": path, "months": len(months)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
