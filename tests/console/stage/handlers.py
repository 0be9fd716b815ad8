"""The handlers of the pool `jobs`."""

import time

from streamfleet import job


@job("order.import")
def import_order(job):
    lines = job.payload.get("lines", 3)
    for number in range(1, lines + 1):
        job.progress(100 * number / lines, f"line {number} of {lines}")
    job.log("imported", rows=lines)
    return {"rows": lines, "customer": job.payload.get("customer")}


@job("report.generate")
def generate_report(job):
    job.log("reading the sales of last month", region=job.payload.get("region"))
    job.progress(42, "sales of 13 of 31 days")
    while not job.cancelled:
        time.sleep(0.05)
    # A job that succeeds although it was cancelled is done.
    raise RuntimeError(f"the report was stopped: {job.cancelled}")
