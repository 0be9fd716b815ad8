"""Redis as the fleet sees it: reachable, quick, roomy, and set up so that it deletes nothing."""

from .panel import GREEN, RED, YELLOW, Query, dashboard, datasource, lines, stat, variable
from .series import FLEET, quantile, rate, series, total


def highest(metric):
    """What the processes that know it say; the others say 0."""
    return f"max by (namespace, job) ({series(metric, FLEET)})"


USED, MAX = highest("redis_memory_used_bytes"), highest("redis_memory_max_bytes")

NOW = [
    stat("Processes in touch", "percentunit", "Share of the processes whose sign of life Redis answers.",
         f"avg({series('redis_up', FLEET)})", [(0, RED), (0.99, YELLOW), (1, GREEN)]),
    stat("Memory used", "bytes", "What Redis uses.", f"max({USED})"),
    stat("Of maxmemory", "percentunit", "What Redis uses of its maxmemory; 0 where it has none.",
         f"max({USED}) / (max({MAX}) > 0) or vector(0)", [(0.85, YELLOW), (0.95, RED)]),
    stat("Deletes nothing", "bool_yes_no", "Whether maxmemory-policy is noeviction. Any other may delete jobs.",
         f"min({highest('redis_eviction_safe')})", [(0, RED), (1, GREEN)]),
    stat("Errors", "short", "Commands that Redis did not do, in the time that is shown.", total("redis_errors_total", FLEET),
         [(1, YELLOW)]),
    stat("Reconnects", "short", "Connections that were made anew, in the time that is shown.",
         total("redis_reconnects_total", FLEET), [(1, YELLOW)]),
]  # fmt: skip

REACH = [
    lines("In touch", "bool_yes_no", "Whether Redis answers each process's sign of life.", (f"min by (instance) ({series('redis_up', FLEET)})", "{{instance}}")),
    lines("Errors, by kind", "ops", "Commands that Redis did not do per second. full: out of memory; configuration: rights, password or keys; "
          "unreachable and unknown_outcome: the network.", (rate("redis_errors_total", "kind", FLEET), "{{kind}}"), stacked=True),
    lines("Reconnects", "ops", "Connections that were made anew per second.", (rate("redis_reconnects_total", "instance", FLEET), "{{instance}}")),
]  # fmt: skip

SPEED = [
    lines("Command time p99", "s", "Within this time 99 % of each command ended, as the workers see it. Blocking reads are left out.",
          (quantile(0.99, "redis_command_duration_seconds", "command", FLEET), "{{command}}"), width=12),
    lines("Command time, all", "s", "How long commands took, over all of them.",
          *[(quantile(at, "redis_command_duration_seconds", labels=FLEET), f"p{at * 100:g}") for at in (0.5, 0.95, 0.99)], width=12),
    lines("Commands", "ops", "Commands per second, by script or command.",
          (rate("redis_command_duration_seconds_count", "command", FLEET), "{{command}}"), width=12, stacked=True),
    lines("Time spent waiting for Redis", "s", "Seconds per second that tasks of the workers waited for each command.",
          (rate("redis_command_duration_seconds_sum", "command", FLEET), "{{command}}"), width=12, stacked=True),
]  # fmt: skip

ROOM = [
    lines("Memory", "bytes", "What Redis uses; dashed is maxmemory, 0 where it has none.", (USED, "used"), Query(MAX, "maxmemory", objective=True)),
    lines("What is kept", "short", "Jobs in each state, over all queues: what memory is used for.",
          (f"sum by (state) (max by (namespace, queue, state) ({series('queue_jobs', FLEET)}))", "{{state}}"), stacked=True),
    lines("Events", "ops", "Events written to the streams of events, and events that were not.",
          (f"sum(rate({series('events_published_total', FLEET)}[$__rate_interval]))", "written"),
          (rate("events_dropped_total", "whom", FLEET), "not told: {{whom}}")),
]  # fmt: skip


def build():
    """The dashboard."""
    variables = [datasource(), variable("namespace", "Namespace", "streamfleet_build_info")]
    rows = [("Now", NOW), ("Reach", REACH), ("Speed", SPEED), ("Room", ROOM)]
    return dashboard("redis", "Redis", "Redis as the fleet sees it.", variables, rows)
