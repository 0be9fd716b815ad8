"""Dead letters: how many, how old, of which types, and how fast they arrive compared with the objective."""

from .panel import RED, YELLOW, Query, dashboard, datasource, heatmap, lines, stat, table, variable
from .series import FLEET, QUEUE, TYPE, grown, jobs, quantile, rate, series, share, total

DIED = 'outcome="dead"'
ENDED = 'outcome=~"succeeded|dead"'
OBJECTIVE = f"max by (queue) ({series('queue_dead_ratio_objective')})"


def ratio(over):
    """The share of ended jobs that died, within a period."""
    died = grown("jobs_finished_total", "queue", more=DIED, over=over)
    return share(died, grown("jobs_finished_total", "queue", more=ENDED, over=over))


NOW = [
    stat("Dead letters", "short", "Jobs that wait for somebody to replay or drop them.", f"sum({jobs('dead')})", [(1, YELLOW)]),
    stat("Oldest letter", "s", "Age of the oldest dead letter.", f"max({series('dead_jobs_oldest_seconds')})", [(86400, YELLOW)]),
    stat("Deaths", "short", "Jobs that died in the selected time range.", total("jobs_finished_total", TYPE, DIED), [(1, YELLOW)]),
    stat("Lost with their workers", "short", "Attempts that failed because their worker died, in the selected time range.",
         total("job_failures_total", TYPE, 'reason="lost"'), [(1, YELLOW)]),
    stat("Expired", "short", "Jobs that expired before they started, in the selected time range.",
         total("jobs_finished_total", TYPE, 'outcome="expired"'), [(1, YELLOW)]),
    stat("Dropped by retention", "short", "Dead letters that retention dropped in the selected time range. They can no longer be replayed.",
         total("dead_jobs_evicted_total"), [(1, RED)]),
]  # fmt: skip

LETTERS = [
    lines("Letters, by queue", "short", "Dead letters that nobody has replayed or dropped.", (jobs("dead"), "{{queue}}"), stacked=True),
    lines("Age of the oldest letter", "s", "How long the oldest dead letter has been waiting.",
          (f"max by (queue) ({series('dead_jobs_oldest_seconds')})", "{{queue}}")),
    lines("Dropped by retention", "short", "Dead letters that retention dropped, within the last interval.",
          (grown("dead_jobs_evicted_total", "queue", over="$__rate_interval"), "{{queue}}")),
]  # fmt: skip

CAMPAIGNS = [
    lines("Campaigns", "short", "Campaigns that replay dead letters, or wait for the ends of their jobs.",
          (f"max by (queue) ({series('campaigns_running')})", "{{queue}}")),
    lines("Jobs of campaigns", "ops", "Letters that campaigns replayed, and what became of these jobs, per second.",
          (rate("campaign_jobs_replayed_total", "queue"), "replayed in {{queue}}"),
          (rate("campaign_jobs_succeeded_total", "queue"), "succeeded in {{queue}}"),
          (rate("campaign_jobs_died_total", "queue"), "died again in {{queue}}")),
    lines("Archived", "short", "Dead letters written to the archive, within the last interval, and times that it could not be written.",
          (grown("dead_jobs_archived_total", "queue", over="$__rate_interval"), "{{queue}}"),
          (grown("dead_archive_failures_total", "queue", over="$__rate_interval"), "failures in {{queue}}")),
]  # fmt: skip

BURN = [
    lines("Dead ratio", "percentunit", "Share of the jobs that died, of those that ended done or dead. Dashed: the queue's objective.",
          (ratio("$__rate_interval"), "{{queue}}"), Query(OBJECTIVE, "objective of {{queue}}", objective=True)),
    lines("Burn rate, last hour", "short", "The dead ratio of the last hour divided by its objective. Above 14.4, the alert is critical.",
          (f"{ratio('1h')} / {OBJECTIVE}", "{{queue}}"), steps=[(14.4, RED)]),
    lines("Burn rate, last 6 hours", "short", "The dead ratio of the last 6 hours divided by its objective. Above 6, the alert is a warning.",
          (f"{ratio('6h')} / {OBJECTIVE}", "{{queue}}"), steps=[(6, YELLOW)]),
]  # fmt: skip

CAUSES = [
    lines("Deaths, by type", "ops", "Jobs that died per second.", (rate("jobs_finished_total", "queue, job_type", TYPE, DIED), "{{queue}} {{job_type}}"),
          stacked=True),
    lines("Failures, by reason", "ops", "Attempts that failed per second, including those that will be retried.",
          (rate("job_failures_total", "reason", TYPE), "{{reason}}"), stacked=True),
    lines("Programs, by outcome", "ops", "Programs of exec handlers that ended per second.",
          (rate("child_processes_total", "outcome", FLEET, 'job_type=~"$job_type"'), "{{outcome}}"),
          stacked=True),
    heatmap("Attempts used", "short", "How many attempts jobs had used when they ended, as jobs per second.",
            rate("job_attempts_bucket", "le", TYPE), width=12),
    lines("Attempts used p95, by type", "short", "95 % of the jobs ended within this many attempts.",
          (quantile(0.95, "job_attempts", "job_type", TYPE), "{{job_type}}"), width=12),
    table("Types", "What died in the selected time range, by type. `streamfleet dead list` shows the letters and their errors.", {
        "dead": ("short", grown("jobs_finished_total", "job_type", TYPE, DIED)),
        "expired": ("short", grown("jobs_finished_total", "job_type", TYPE, 'outcome="expired"')),
        "errors": ("short", grown("job_failures_total", "job_type", TYPE, 'reason="error"')),
        "timeouts": ("short", grown("job_failures_total", "job_type", TYPE, 'reason="timeout"')),
        "panics": ("short", grown("job_failures_total", "job_type", TYPE, 'reason="panic"')),
        "lost": ("short", grown("job_failures_total", "job_type", TYPE, 'reason="lost"')),
    }, width=24),
]  # fmt: skip


def build():
    """The dashboard."""
    variables = [
        datasource(),
        variable("namespace", "Namespace", "streamfleet_build_info"),
        variable("queue", "Queue", f"streamfleet_worker_concurrency{{{FLEET}}}"),
        variable("job_type", "Type", f"streamfleet_jobs_started_total{{{QUEUE}}}"),
    ]
    rows = [("Now", NOW), ("Letters", LETTERS), ("Campaigns and archive", CAMPAIGNS), ("Against the objective", BURN), ("Causes", CAUSES)]
    return dashboard("dead", "Dead letters", "What died, why, and which dead letters remain.", variables, rows)
