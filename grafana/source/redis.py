"""Redis as the fleet sees it: connectivity, speed, capacity and eviction policy."""

from .panel import GREEN, RED, YELLOW, Query, dashboard, datasource, lines, stat, variable
from .series import FLEET, quantile, rate, series, total


def highest(metric):
    """The value of the processes that know it; the others report 0."""
    return f"max by (namespace, job) ({series(metric, FLEET)})"


USED, MAX = highest("redis_memory_used_bytes"), highest("redis_memory_max_bytes")

NOW = [
    stat("Processes connected", "percentunit", "Share of the processes that Redis answers.",
         f"avg({series('redis_up', FLEET)})", [(0, RED), (0.99, YELLOW), (1, GREEN)]),
    stat("Memory used", "bytes", "Memory that Redis uses.", f"max({USED})"),
    stat("Share of maxmemory", "percentunit", "Share of its maxmemory that Redis uses; 0 if it has no maxmemory.",
         f"max({USED}) / (max({MAX}) > 0) or vector(0)", [(0.85, YELLOW), (0.95, RED)]),
    stat("No eviction", "bool_yes_no", "Whether maxmemory-policy is noeviction. Any other policy may delete jobs.",
         f"min({highest('redis_eviction_safe')})", [(0, RED), (1, GREEN)]),
    stat("Errors", "short", "Commands that failed, in the selected time range.", total("redis_errors_total", FLEET),
         [(1, YELLOW)]),
    stat("Reconnects", "short", "Reconnections to Redis, in the selected time range.",
         total("redis_reconnects_total", FLEET), [(1, YELLOW)]),
]  # fmt: skip

REACH = [
    lines("Redis reachable", "bool_yes_no", "Whether Redis answers each process.", (f"min by (instance) ({series('redis_up', FLEET)})", "{{instance}}")),
    lines("Errors, by kind", "ops", "Commands that failed per second. full: out of memory; configuration: rights, password or keys; "
          "unreachable and unknown_outcome: the network.", (rate("redis_errors_total", "kind", FLEET), "{{kind}}"), stacked=True),
    lines("Reconnects", "ops", "Reconnections to Redis per second.", (rate("redis_reconnects_total", "instance", FLEET), "{{instance}}")),
]  # fmt: skip

SPEED = [
    lines("Command time p99", "s", "99 % of the calls of each command ended within this time, as measured by the workers. Blocking reads are left out.",
          (quantile(0.99, "redis_command_duration_seconds", "command", FLEET), "{{command}}"), width=12),
    lines("Command time, all", "s", "How long commands took, over all commands.",
          *[(quantile(at, "redis_command_duration_seconds", labels=FLEET), f"p{at * 100:g}") for at in (0.5, 0.95, 0.99)], width=12),
    lines("Commands", "ops", "Commands per second, by script or command.",
          (rate("redis_command_duration_seconds_count", "command", FLEET), "{{command}}"), width=12, stacked=True),
    lines("Time spent waiting for Redis", "s", "Seconds per second that the workers' tasks waited for each command.",
          (rate("redis_command_duration_seconds_sum", "command", FLEET), "{{command}}"), width=12, stacked=True),
]  # fmt: skip

ROOM = [
    lines("Memory", "bytes", "Memory that Redis uses. Dashed: maxmemory, 0 if it has none.", (USED, "used"), Query(MAX, "maxmemory", objective=True)),
    lines("Jobs in Redis", "short", "Jobs in each state, over all queues: they are what uses the memory.",
          (f"sum by (state) (max by (namespace, queue, state) ({series('queue_jobs', FLEET)}))", "{{state}}"), stacked=True),
    lines("Events", "ops", "Events written to the event streams, and events that were dropped.",
          (f"sum(rate({series('events_published_total', FLEET)}[$__rate_interval]))", "written"),
          (rate("events_dropped_total", "recipient", FLEET), "dropped: {{recipient}}")),
]  # fmt: skip


def build():
    """The dashboard."""
    variables = [datasource(), variable("namespace", "Namespace", "streamfleet_build_info")]
    rows = [("Now", NOW), ("Connectivity", REACH), ("Speed", SPEED), ("Capacity", ROOM)]
    return dashboard("redis", "Redis", "Redis as the fleet sees it.", variables, rows)
