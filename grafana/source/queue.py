"""One queue in depth: its jobs from submission to end, by type, and its maintenance."""

from .panel import RED, YELLOW, Query, dashboard, datasource, heatmap, lines, stat, table, to_dashboard, variable
from .series import FLEET, QUEUE, TYPE, grown, jobs, newest, quantile, rate, series, share

TO_DEAD = to_dashboard("dead", "${namespace:queryparam}&${queue:queryparam}")


def highest(metric):
    """The maximum over all processes."""
    return f"max({series(metric)})"


NOW = [
    stat("Waiting", "short", "Jobs that are ready to run and wait for a slot.", f"sum({jobs('waiting')})"),
    stat("Running", "short", "Jobs that are delivered to a worker, according to Redis.", f"sum({jobs('running')})"),
    stat("Delayed", "short", "Jobs that are due later: scheduled ones, and retries.", f"sum({jobs('delayed')})"),
    stat("Dead", "short", "Dead letters that nobody has replayed or dropped.", f"sum({jobs('dead')})", [(1, YELLOW)], TO_DEAD),
    stat("Oldest waiting vs. objective", "percentunit", "Age of the oldest waiting job as a share of the latency objective. Above 100 %, it is late.",
         f"{highest('queue_latency_seconds')} / {highest('queue_latency_objective_seconds')}", [(0.8, YELLOW), (1, RED)]),
    stat("Workers", "short", "Processes that serve the queue.", f"count({series('worker_concurrency')})"),
]  # fmt: skip

BACKLOG = newest("queue_backlog_jobs")
ENDING = rate("jobs_finished_total", "queue", more='outcome=~"succeeded|dead|expired|cancelled"')
FLOW = [
    lines("Incoming jobs, by lane", "ops", "Entries added to each lane per second: submissions, retries and promoted jobs. Reported by the leader.",
          (rate("queue_entries_added_total", "lane"), "{{lane}}"), stacked=True),
    lines("Attempts started, by type", "ops", "Attempts that started per second.",
          (rate("jobs_started_total", "job_type", TYPE), "{{job_type}}"), stacked=True),
    lines("Attempts ended, by outcome", "ops", "Attempts that ended per second. Retried, snoozed and interrupted jobs run again.",
          (rate("jobs_finished_total", "outcome", TYPE), "{{outcome}}"), stacked=True),
    lines("Jobs by state", "short", "How many jobs the queue has.", (jobs(".+", "state"), "{{state}}"), stacked=True),
    lines("Backlog", "short", "Jobs that are waiting, running, or due within a minute. Autoscaling uses this number.", (f"sum by (queue) ({BACKLOG})", "{{queue}}")),
    lines("Time to empty", "s", "The time until the queue is empty if jobs end at the current rate and no more arrive.",
          (share(f"sum by (queue) ({BACKLOG})", ENDING), "{{queue}}")),
]  # fmt: skip

LATENCY = [
    heatmap("Wait", "s", "From when a job is ready until its handler starts, without deliberate delays, as attempts per second.",
            rate("job_wait_seconds_bucket", "le", TYPE), width=12),
    heatmap("Run time", "s", "How long handlers ran in one attempt, as attempts per second.",
            rate("job_duration_seconds_bucket", "le", TYPE), width=12),
    lines("Wait p95, by type", "s", "95 % of the attempts started within this time.", (quantile(0.95, "job_wait_seconds", "job_type", TYPE), "{{job_type}}")),
    lines("Run time p95, by type", "s", "95 % of the handlers ended within this time.",
          (quantile(0.95, "job_duration_seconds", "job_type", TYPE), "{{job_type}}")),
    lines("Completion p95, by type", "s", "95 % of the jobs ended within this time after their acceptance, including retries and delays.",
          (quantile(0.95, "job_completion_seconds", "job_type", TYPE), "{{job_type}}")),
    lines("Oldest waiting job", "s", "Age of the oldest waiting job. Dashed: the objective.",
          (highest("queue_latency_seconds"), "oldest"), Query(highest("queue_latency_objective_seconds"), "objective", objective=True), width=12),
    lines("Late starts, by type", "percentunit", "Share of the attempts that started later than the latency objective.",
          (share(rate("jobs_started_late_total", "job_type", TYPE), rate("jobs_started_total", "job_type", TYPE)), "{{job_type}}"),
          width=12, max=1),
]  # fmt: skip

ERRORS = [
    lines("Failures, by type and reason", "ops", "Attempts that failed per second.",
          (rate("job_failures_total", "job_type, reason", TYPE), "{{job_type}} {{reason}}"), stacked=True),
    lines("Deaths, by type", "ops", "Jobs that died per second.",
          (rate("jobs_finished_total", "job_type", TYPE, 'outcome="dead"'), "{{job_type}}"), stacked=True),
    lines("Programs, by outcome", "ops", "Programs of exec handlers that ended per second.",
          (rate("child_processes_total", "job_type, outcome", FLEET, 'job_type=~"$job_type"'), "{{job_type}} {{outcome}}"), stacked=True),
    table("Types", "What happened to each type in the selected time range.", {
        "attempts": ("short", grown("jobs_started_total", "job_type", TYPE)),
        "succeeded": ("short", grown("jobs_finished_total", "job_type", TYPE, 'outcome="succeeded"')),
        "retried": ("short", grown("jobs_finished_total", "job_type", TYPE, 'outcome="retried"')),
        "dead": ("short", grown("jobs_finished_total", "job_type", TYPE, 'outcome="dead"')),
        "late": ("short", grown("jobs_started_late_total", "job_type", TYPE)),
    }, width=24),
]  # fmt: skip

GATES = [
    lines("Closed gates", "short", "Gates that somebody has closed, the whole queue's included, and gates that their breakers have closed.",
          (f"sum by (queue) ({newest('queue_gates_closed')})", "{{queue}} paused"),
          (f"sum by (queue) ({newest('queue_breakers_open')})", "{{queue}} breakers open")),
    lines("Waiting for gates", "short", "Jobs in waiting lists: those that a gate does not let pass, and those that wait for the turn of their value.",
          (f"sum by (queue) ({newest('queue_rooms_jobs')})", "{{queue}} gate"), (f"sum by (queue) ({newest('queue_fair_jobs')})", "{{queue}} turn")),
    lines("Granted and refused", "ops", "Jobs that passed their gates, and jobs that a gate refused, per second. A refused job asks again after it has waited.",
          (rate("gates_granted_total", "queue"), "{{queue}} granted"), (rate("gates_refused_total", "queue"), "{{queue}} refused")),
    lines("In and out of waiting lists", "ops", "Jobs that moved to waiting lists, and jobs that left them in turn or through the leader, per second.",
          (rate("jobs_parked_total", "queue"), "{{queue}} parked"), (rate("jobs_sorted_total", "queue"), "{{queue}} sorted"),
          (rate("jobs_let_out_total", "queue"), "{{queue}} let out")),
    lines("Paused for", "s", "For how long the whole queue has been paused.", (highest("queue_paused_seconds"), "paused")),
    lines("Unknown types", "short", "Jobs that wait because no live worker of the queue knows their type. `streamfleet queues` names the types.",
          (f"sum by (queue) ({newest('queue_unserved_jobs')})", "{{queue}}")),
]  # fmt: skip

HOLD = [
    lines("Slots", "short", "Running handlers. Dashed: the slots.", (f"sum by (queue) ({series('jobs_running')})", "{{queue}} running"),
          Query(f"sum by (queue) ({series('worker_concurrency')})", "{{queue}} slots", objective=True)),
    lines("Longest running attempt", "s", "How long the longest running attempt has been running. Dashed: the longest timeout of any type.",
          (highest("jobs_running_oldest_seconds"), "longest"), Query(highest("queue_timeout_seconds"), "timeout", objective=True)),
    lines("Longest time without renewal", "s", "The longest time since a delivered entry was last renewed. Dashed: the lease.",
          (highest("queue_oldest_pending_seconds"), "silence"), Query(highest("queue_lease_seconds"), "lease", objective=True)),
    lines("Consumers", "short", "Members of the consumer group: live ones, and stale ones that are about to be removed.",
          (f"sum by (state) ({newest('queue_consumers', ('queue', 'state'))})", "{{state}}")),
    lines("Taken over and lost", "short", "Entries taken over from silent consumers, running attempts that lost their lease, and outcomes "
          "that came too late, within the last interval.",
          (grown("jobs_reclaimed_total", "queue", over="$__rate_interval"), "taken over"),
          (grown("leases_lost_total", "queue", over="$__rate_interval"), "lease lost"),
          (grown("outcomes_fenced_total", "queue", over="$__rate_interval"), "fenced")),
    lines("Since the last read", "s", "How long ago each process last read new entries. It grows while all slots are busy, or if a reader hangs.",
          (f"time() - {series('worker_last_poll_timestamp_seconds')}", "{{instance}}")),
]  # fmt: skip

CHORES = [
    lines("Leaders", "short", "Processes that do the queue's maintenance. Must be 1.", (f"sum by (queue) ({series('scheduler_leader')})", "{{queue}}")),
    lines("Promoted", "ops", "Delayed jobs that became due per second.", (rate("scheduler_promoted_total", "queue"), "{{queue}}")),
    lines("Promoted late", "s", "How late the latest job was promoted, and how overdue the most overdue delayed job is now.",
          (highest("scheduler_lag_seconds"), "promoted late"), (highest("queue_overdue_seconds"), "overdue")),
    lines("Recurring jobs", "ops", "Ticks that were submitted, and ticks that were missed and not made up for, per second.",
          (rate("cron_ticks_total", "queue"), "submitted"), (rate("cron_skipped_total", "queue"), "skipped")),
    lines("Recurring jobs overdue", "s", "How overdue the most overdue recurring job is.", (highest("cron_overdue_seconds"), "overdue")),
    lines("Age and cost of queue metrics", "s", "How old the leader's metrics of the queue are, how long it took to collect them, and how long ago it "
          "last did maintenance.",
          (f"time() - {highest('collector_last_success_timestamp_seconds')}", "age"), (highest("collector_duration_seconds"), "cost"),
          (f"time() - {highest('scheduler_last_tick_timestamp_seconds')}", "since the last maintenance")),
]  # fmt: skip


def build():
    """The dashboard."""
    variables = [
        datasource(),
        variable("namespace", "Namespace", "streamfleet_build_info"),
        variable("queue", "Queue", f"streamfleet_worker_concurrency{{{FLEET}}}", multi=False),
        variable("job_type", "Type", f"streamfleet_jobs_started_total{{{QUEUE}}}"),
    ]
    rows = [("Now", NOW), ("Flow", FLOW), ("Latency", LATENCY), ("Errors", ERRORS), ("Gates", GATES), ("Running work", HOLD), ("Maintenance", CHORES)]
    return dashboard("queue", "Queue", "One queue in depth. All shows the sum of the queues.", variables, rows)
