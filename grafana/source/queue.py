"""One queue in depth: its jobs from coming to ending, by type, and the chores that keep it going."""

from .panel import RED, YELLOW, Query, dashboard, datasource, heatmap, lines, stat, table, to_dashboard, variable
from .series import FLEET, QUEUE, TYPE, grown, jobs, newest, quantile, rate, series, share

TO_DEAD = to_dashboard("dead", "${namespace:queryparam}&${queue:queryparam}")


def highest(metric):
    """The highest of what the processes say."""
    return f"max({series(metric)})"


NOW = [
    stat("Waiting", "short", "Jobs that could run now and wait for a slot.", f"sum({jobs('waiting')})"),
    stat("Running", "short", "Jobs that a worker holds, as Redis sees it.", f"sum({jobs('running')})"),
    stat("Delayed", "short", "Jobs that are due later: scheduled ones, and retries.", f"sum({jobs('delayed')})"),
    stat("Dead", "short", "Dead letters that nobody has replayed or dropped.", f"sum({jobs('dead')})", [(1, YELLOW)], TO_DEAD),
    stat("Oldest waiting against objective", "percentunit", "Age of the oldest waiting job over the latency objective. Beyond 100 % it is late.",
         f"{highest('queue_latency_seconds')} / {highest('queue_latency_objective_seconds')}", [(0.8, YELLOW), (1, RED)]),
    stat("Workers", "short", "Processes that serve the queue.", f"count({series('worker_concurrency')})"),
]  # fmt: skip

BACKLOG = newest("queue_backlog_jobs")
ENDING = rate("jobs_finished_total", "queue", more='outcome=~"succeeded|dead|expired|cancelled"')
FLOW = [
    lines("Jobs that come, by lane", "ops", "Entries added to each lane per second: submissions, retries and promoted jobs. Told by the leader.",
          (rate("queue_entries_added_total", "lane"), "{{lane}}"), stacked=True),
    lines("Attempts begun, by type", "ops", "Attempts that began per second.",
          (rate("jobs_started_total", "job_type", TYPE), "{{job_type}}"), stacked=True),
    lines("Attempts ended, by outcome", "ops", "Attempts that ended per second. Retried, snoozed and interrupted jobs come again.",
          (rate("jobs_finished_total", "outcome", TYPE), "{{outcome}}"), stacked=True),
    lines("Jobs by state", "short", "How many jobs the queue has.", (jobs(".+", "state"), "{{state}}"), stacked=True),
    lines("Backlog", "short", "Waiting, running, and due within a minute: what autoscaling goes by.", (f"sum by (queue) ({BACKLOG})", "{{queue}}")),
    lines("Time to empty", "s", "The backlog over the rate at which jobs end now, were no more to come.",
          (share(f"sum by (queue) ({BACKLOG})", ENDING), "{{queue}}")),
]  # fmt: skip

LATENCY = [
    heatmap("Wait", "s", "From being ready to the start of the handler, without deliberate delays: how many per second waited how long.",
            rate("job_wait_seconds_bucket", "le", TYPE), width=12),
    heatmap("Run time", "s", "How long handlers ran in one attempt: how many per second ran how long.",
            rate("job_duration_seconds_bucket", "le", TYPE), width=12),
    lines("Wait p95, by type", "s", "Within this time 95 % of the attempts began.", (quantile(0.95, "job_wait_seconds", "job_type", TYPE), "{{job_type}}")),
    lines("Run time p95, by type", "s", "Within this time 95 % of the handlers ended.",
          (quantile(0.95, "job_duration_seconds", "job_type", TYPE), "{{job_type}}")),
    lines("Completion p95, by type", "s", "Within this time of their acceptance 95 % of the jobs had ended, with retries and delays.",
          (quantile(0.95, "job_completion_seconds", "job_type", TYPE), "{{job_type}}")),
    lines("Oldest waiting job", "s", "Age of the oldest job that waits; dashed is the objective.",
          (highest("queue_latency_seconds"), "oldest"), Query(highest("queue_latency_objective_seconds"), "objective", objective=True), width=12),
    lines("Late starts, by type", "percentunit", "Share of attempts that began after the latency objective.",
          (share(rate("jobs_started_late_total", "job_type", TYPE), rate("jobs_started_total", "job_type", TYPE)), "{{job_type}}"),
          width=12, max=1),
]  # fmt: skip

ERRORS = [
    lines("Failures, by type and reason", "ops", "Attempts that failed per second.",
          (rate("job_failures_total", "job_type, reason", TYPE), "{{job_type}} {{reason}}"), stacked=True),
    lines("Deaths, by type", "ops", "Jobs that died per second.",
          (rate("jobs_finished_total", "job_type", TYPE, 'outcome="dead"'), "{{job_type}}"), stacked=True),
    lines("Programs, by how they ended", "ops", "Programs of exec handlers that ended per second.",
          (rate("child_processes_total", "job_type, outcome", FLEET, 'job_type=~"$job_type"'), "{{job_type}} {{outcome}}"), stacked=True),
    table("Types", "What happened to each type in the time that is shown.", {
        "attempts": ("short", grown("jobs_started_total", "job_type", TYPE)),
        "succeeded": ("short", grown("jobs_finished_total", "job_type", TYPE, 'outcome="succeeded"')),
        "retried": ("short", grown("jobs_finished_total", "job_type", TYPE, 'outcome="retried"')),
        "dead": ("short", grown("jobs_finished_total", "job_type", TYPE, 'outcome="dead"')),
        "late": ("short", grown("jobs_started_late_total", "job_type", TYPE)),
    }, width=24),
]  # fmt: skip

HOLD = [
    lines("Slots", "short", "Running handlers; dashed are the slots.", (f"sum by (queue) ({series('jobs_running')})", "{{queue}} running"),
          Query(f"sum by (queue) ({series('worker_concurrency')})", "{{queue}} slots", objective=True)),
    lines("Longest running attempt", "s", "How long the longest running attempt has run; dashed is the longest timeout of any type.",
          (highest("jobs_running_oldest_seconds"), "longest"), Query(highest("queue_timeout_seconds"), "timeout", objective=True)),
    lines("Longest silence of a delivery", "s", "How long an entry that somebody holds has been without a sign of life; dashed is the lease.",
          (highest("queue_oldest_pending_seconds"), "silence"), Query(highest("queue_lease_seconds"), "lease", objective=True)),
    lines("Consumers", "short", "Members of the consumer group: live ones, and stale ones that are about to be removed.",
          (f"sum by (state) ({newest('queue_consumers', ('queue', 'state'))})", "{{state}}")),
    lines("Taken over and lost", "short", "Entries taken over from silent consumers, running attempts that lost their lease, outcomes "
          "that came too late; within the last interval.",
          (grown("jobs_reclaimed_total", "queue", over="$__rate_interval"), "taken over"),
          (grown("leases_lost_total", "queue", over="$__rate_interval"), "lease lost"),
          (grown("outcomes_fenced_total", "queue", over="$__rate_interval"), "fenced")),
    lines("Since the last read", "s", "How long ago each process last read new entries. It grows where all slots are busy, or a reader hangs.",
          (f"time() - {series('worker_last_poll_timestamp_seconds')}", "{{instance}}")),
]  # fmt: skip

CHORES = [
    lines("Leaders", "short", "Processes that do the queue's chores. Must be 1.", (f"sum by (queue) ({series('scheduler_leader')})", "{{queue}}")),
    lines("Promoted", "ops", "Delayed jobs that became due per second.", (rate("scheduler_promoted_total", "queue"), "{{queue}}")),
    lines("Promoted late", "s", "By how much the most overdue job was promoted late, and how overdue the most overdue one is now.",
          (highest("scheduler_lag_seconds"), "promoted late"), (highest("queue_overdue_seconds"), "overdue")),
    lines("Recurring jobs", "ops", "Ticks that were submitted, and ticks that were missed and not made up for, per second.",
          (rate("cron_ticks_total", "queue"), "submitted"), (rate("cron_skipped_total", "queue"), "skipped")),
    lines("Recurring jobs overdue", "s", "How overdue the most overdue recurring job is.", (highest("cron_overdue_seconds"), "overdue")),
    lines("Age and cost of the figures", "s", "How old the leader's figures of the queue are, how long it took to get them, and since when it "
          "has done no chores.",
          (f"time() - {highest('collector_last_success_timestamp_seconds')}", "age"), (highest("collector_duration_seconds"), "cost"),
          (f"time() - {highest('scheduler_last_tick_timestamp_seconds')}", "since the last chore")),
]  # fmt: skip


def build():
    """The dashboard."""
    variables = [
        datasource(),
        variable("namespace", "Namespace", "streamfleet_build_info"),
        variable("queue", "Queue", f"streamfleet_worker_concurrency{{{FLEET}}}", multi=False),
        variable("job_type", "Type", f"streamfleet_jobs_started_total{{{QUEUE}}}"),
    ]
    rows = [("Now", NOW), ("Flow", FLOW), ("Latency", LATENCY), ("Errors", ERRORS), ("What is held", HOLD), ("Chores", CHORES)]
    return dashboard("queue", "Queue", "One queue in depth. With All it adds the queues up.", variables, rows)
