"""The queries of the panels, so that all panels query in the same way.

The process that does a queue's maintenance reports the metrics of the queue, and the others report 0: `newest` takes the maximum per
queue. Counters and the gauges of processes are added up.
"""

RATE = "$__rate_interval"
FLEET = 'namespace=~"$namespace"'
QUEUE = f'{FLEET},queue=~"$queue"'
TYPE = f'{QUEUE},job_type=~"$job_type"'


def series(metric, labels=QUEUE, more=""):
    """A selector of a metric of ours."""
    return f"streamfleet_{metric}{{{labels}{',' if more else ''}{more}}}"


def newest(metric, by=("queue",), more="", labels=QUEUE):
    """The state of each queue, as its leader reports it."""
    return f"max by (namespace, {', '.join(by)}) ({series(metric, labels, more)})"


def jobs(state, by="queue"):
    """How many jobs are in a state."""
    newest_jobs = newest("queue_jobs", ("queue", "state"), f'state=~"{state}"')
    return f"sum by ({by}) ({newest_jobs})"


def rate(metric, by, labels=QUEUE, more=""):
    """The rate per second."""
    return f"sum by ({by}) (rate({series(metric, labels, more)}[{RATE}]))"


def grown(metric, by, labels=QUEUE, more="", over="$__range"):
    """The increase within the selected time range."""
    return f"sum by ({by}) (increase({series(metric, labels, more)}[{over}]))"


def total(metric, labels=QUEUE, more=""):
    """The increase within the selected time range, over all series."""
    return f"sum(increase({series(metric, labels, more)}[$__range]))"


def quantile(share, metric, by="", labels=QUEUE):
    """The time within which this share ended, from a histogram."""
    by = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, {rate(metric + '_bucket', by, labels)})"


def share(part, whole):
    """A part of a whole; nothing while the whole is 0."""
    return f"{part} / ({whole} > 0)"
