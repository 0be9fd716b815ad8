"""The fleet by its golden signals: traffic, latency, errors and saturation."""

from .panel import GREEN, RED, YELLOW, Query, dashboard, datasource, lines, stat, table, to_dashboard, variable
from .series import FLEET, RATE, grown, jobs, newest, quantile, rate, series, share, total

OBJECTIVE = newest("queue_latency_objective_seconds")
LATE = f"{newest('queue_latency_seconds')} > on (namespace, queue) {OBJECTIVE}"
LED = f"sum by (namespace, queue) ({series('scheduler_leader')})"
TO_QUEUE = to_dashboard("queue", "var-queue=${__data.fields.queue}")
TO_DEAD = to_dashboard("dead", "${namespace:queryparam}&${queue:queryparam}")
TO_REDIS = to_dashboard("redis", "${namespace:queryparam}")

NOW = [
    stat("Queues beyond their objective", "short", "Queues whose oldest waiting job is older than the queue's latency objective.",
         f"count({LATE}) or vector(0)", [(1, RED)]),
    stat("Waiting jobs", "short", "Jobs that are ready to run and wait for a slot.", f"sum({jobs('waiting')})"),
    stat("Running jobs", "short", "Handlers that are running, over all processes.", f"sum({series('jobs_running')})"),
    stat("Workers", "short", "Processes that Prometheus can scrape.", f"count({series('build_info', FLEET)})", [(0, RED), (1, GREEN)]),
    stat("Dead letters", "short", "Jobs that wait for somebody to replay or drop them.", f"sum({jobs('dead')})", [(1, YELLOW)], TO_DEAD),
    stat("Queues without a leader", "short", "Queues without a process that does their maintenance: their jobs are neither promoted nor taken over.",
         f"count({LED} == 0) or vector(0)", [(1, RED)]),
    table("Queues", "The current state of each queue. Click a queue for details.", {
        "waiting": ("short", jobs("waiting")),
        "running": ("short", jobs("running")),
        "delayed": ("short", jobs("delayed")),
        "dead": ("short", jobs("dead")),
        "oldest waiting": ("s", f"max by (queue) ({series('queue_latency_seconds')})"),
        "objective": ("s", f"max by (queue) ({series('queue_latency_objective_seconds')})"),
        "workers": ("short", f"count by (queue) ({series('worker_concurrency')})"),
        "slot use": ("percentunit", f"sum by (queue) ({series('jobs_running')}) / sum by (queue) ({series('worker_concurrency')})"),
    }, link=TO_QUEUE, width=24),
]  # fmt: skip

TRAFFIC = [
    lines("Incoming jobs", "ops", "Entries added to the lanes per second: submissions, retries and promoted jobs. Reported by the leader.",
          (rate("queue_entries_added_total", "queue"), "{{queue}}"), stacked=True),
    lines("Attempts by outcome", "ops", "Attempts that ended per second.",
          (rate("jobs_finished_total", "outcome"), "{{outcome}}"), stacked=True),
    lines("Jobs by state", "short", "Number of jobs, over the selected queues.", (jobs(".+", "state"), "{{state}}"), stacked=True),
]  # fmt: skip

LATENCY = [
    lines("Wait", "s", "From when a job is ready until its handler starts, without deliberate delays.",
          *[(quantile(at, "job_wait_seconds"), f"p{at * 100:g}") for at in (0.5, 0.95, 0.99)]),
    lines("Run time", "s", "How long handlers ran in one attempt.",
          *[(quantile(at, "job_duration_seconds"), f"p{at * 100:g}") for at in (0.5, 0.95, 0.99)]),
    lines("Completion", "s", "From acceptance to the end of the job, including all retries and delays.",
          *[(quantile(at, "job_completion_seconds"), f"p{at * 100:g}") for at in (0.5, 0.95)]),
    lines("Oldest waiting job", "s", "Age of the oldest waiting job. Dashed: the queue's objective.",
          (f"max by (queue) ({series('queue_latency_seconds')})", "{{queue}}"),
          Query(f"max by (queue) ({series('queue_latency_objective_seconds')})", "objective of {{queue}}", objective=True), width=12),
    lines("Late starts", "percentunit", "Share of the attempts that started later than the queue's latency objective.",
          (share(rate("jobs_started_late_total", "queue"), rate("jobs_started_total", "queue")), "{{queue}}"), width=12, max=1),
]  # fmt: skip

DEAD = rate("jobs_finished_total", "queue", more='outcome="dead"')
ENDED = rate("jobs_finished_total", "queue", more='outcome=~"succeeded|dead"')
ERRORS = [
    lines("Failures by reason", "ops", "Attempts that failed per second.",
          (rate("job_failures_total", "queue, reason"), "{{queue}} {{reason}}"), stacked=True),
    lines("Dead ratio", "percentunit", "Share of the jobs that died, of those that ended done or dead. Dashed: the queue's objective.",
          (share(DEAD, ENDED), "{{queue}}"),
          Query(f"max by (queue) ({series('queue_dead_ratio_objective')})", "objective of {{queue}}", objective=True)),
    lines("Taken over and lost", "short", "Entries taken over from silent consumers, running attempts that lost their lease, and outcomes "
          "that came too late, within the last interval.",
          (grown("jobs_reclaimed_total", "queue", over="$__rate_interval"), "{{queue}} taken over"),
          (grown("leases_lost_total", "queue", over="$__rate_interval"), "{{queue}} lease lost"),
          (grown("outcomes_fenced_total", "queue", over="$__rate_interval"), "{{queue}} fenced")),
    stat("Jobs lost", "short", "Pending entries that somebody deleted, in the selected time range. Must be 0.",
         total("bodies_lost_total"), [(1, RED)]),
    stat("Groups recreated", "short", "Streams or groups that disappeared while in use, in the selected time range. Must be 0.",
         total("groups_recreated_total"), [(1, RED)]),
    stat("Letters dropped by retention", "short", "Dead letters that retention dropped in the selected time range. They can no longer be replayed.",
         total("dead_jobs_evicted_total"), [(1, YELLOW)], TO_DEAD),
    stat("Processes without Redis", "short", "Processes that Redis does not answer.",
         f"count({series('redis_up', FLEET)} == 0) or vector(0)", [(1, RED)], TO_REDIS),
    stat("Events dropped", "short", "Events that did not reach hooks or the event stream, in the selected time range. Jobs are not affected.",
         total("events_dropped_total", FLEET), [(1, YELLOW)]),
    stat("Hook failures", "short", "Hook calls that failed, in the selected time range.",
         total("hook_failures_total", FLEET), [(1, YELLOW)]),
]  # fmt: skip

SATURATION = [
    lines("Slot use", "percentunit", "Running handlers divided by slots. At 100 %, a backlog grows: add workers or raise the concurrency.",
          (f"sum by (queue) ({series('jobs_running')}) / sum by (queue) ({series('worker_concurrency')})", "{{queue}}"), max=1),
    lines("Memory", "bytes", "Resident memory of each process, without the programs of exec handlers.",
          (f"process_resident_memory_bytes{{{FLEET}}} and on (namespace, job, instance) {series('build_info', FLEET)}", "{{instance}}")),
    lines("CPU", "short", "CPU cores that each process uses, without the programs of exec handlers.",
          (f"rate(process_cpu_seconds_total{{{FLEET}}}[$__rate_interval]) and on (namespace, job, instance) {series('build_info', FLEET)}",
           "{{instance}}")),
    lines("Runtime busy", "percentunit", "How busy the runtime's threads are. Near 100 %, handlers block them, or there are too few.",
          (f"max by (instance) ({series('tokio_busy_ratio', FLEET)})", "{{instance}}"), max=1),
    lines("Open files", "percentunit", "Open files and sockets, as a share of the process's limit.",
          (f"process_open_fds{{{FLEET}}} / process_max_fds{{{FLEET}}} and on (namespace, job, instance) {series('build_info', FLEET)}",
           "{{instance}}"), max=1),
    lines("Uptime", "s", "How long each process has been running. Repeated drops are restarts.",
          (f"time() - process_start_time_seconds{{{FLEET}}} and on (namespace, job, instance) {series('build_info', FLEET)}", "{{instance}}")),
]  # fmt: skip


POOLS = [
    lines("Programs", "short", "Programs of each pool, by what they are doing. Without any, the pool's jobs wait.",
          (f"sum by (pool, state) ({series('pool_processes', FLEET)})", "{{pool}} {{state}}"), stacked=True),
    lines("Ends of programs", "short", "Programs that ended or failed to start, within the last interval. Crashed, nonsense, cut and not_started are faults; "
          "the worker replaces programs for the other reasons.",
          (grown("pool_restarts_total", "pool, reason", FLEET, over="$__rate_interval"), "{{pool}} {{reason}}"), stacked=True),
    lines("Memory of programs", "bytes", "Resident memory of each pool's programs together, without that of programs that they run.",
          (f"sum by (pool) ({series('pool_memory_bytes', FLEET)})", "{{pool}}")),
]  # fmt: skip

DATABASES = [
    lines("Ends written", "ops", "Ends of jobs that the database of the history took per second.",
          (rate("history_ends_written_total", "queue"), "{{queue}}"), stacked=True),
    lines("Journal", "percentunit", "Share of its room that the journal of the history takes in Redis. From half on, the oldest ends go to files.",
          (share(f"sum by (queue) ({newest('history_journal_bytes')})", f"sum by (queue) ({newest('history_journal_max_bytes')})"), "{{queue}}"), max=1),
    lines("Oldest end in the journal", "s", "For how long the oldest end of a job has waited to be written.",
          (f"sum by (queue) ({newest('history_journal_oldest_age_seconds')})", "{{queue}}")),
    lines("Spilled", "bytes", "Ends in files, because the journal had no room for them. They are written once the database takes ends again.",
          (f"sum by (queue) ({series('history_spilled_bytes')})", "{{queue}}")),
    stat("Ends lost", "short", "Ends of the last day that found no room in the journal. The history lacks them.",
         f"sum({newest('history_lost_ends')})", [(1, RED)]),
    stat("Rows refused", "short", "Rows of the outbox that can never be jobs until somebody repairs them.",
         f"max({series('outbox_refused_rows', FLEET)})", [(1, RED)]),
    lines("Outbox", "ops", "Rows of the outbox that became jobs, and rows that were refused, per second.",
          (f"sum(rate({series('outbox_rows_relayed_total', FLEET)}[{RATE}]))", "relayed"),
          (f"sum(rate({series('outbox_rows_refused_total', FLEET)}[{RATE}]))", "refused")),
    lines("Rows that wait", "short", "Rows of the outbox that wait to become jobs, counted up to 10,000.",
          (f"max({series('outbox_waiting_rows', FLEET)})", "waiting")),
    lines("Oldest row of the outbox", "s", "For how long the oldest row has waited.",
          (f"max({series('outbox_oldest_age_seconds', FLEET)})", "oldest")),
    lines("Errors of databases", "short", "Attempts to write the history or to relay the outbox that failed, by class, within the last interval.",
          (grown("history_errors_total", "queue, class", over="$__rate_interval"), "history {{queue}} {{class}}"),
          (grown("outbox_errors_total", "class", FLEET, over="$__rate_interval"), "outbox {{class}}"), width=16),
]  # fmt: skip


def build():
    """The dashboard."""
    variables = [
        datasource(),
        variable("namespace", "Namespace", "streamfleet_build_info"),
        variable("queue", "Queue", f"streamfleet_worker_concurrency{{{FLEET}}}"),
    ]
    rows = [("Now", NOW), ("Traffic", TRAFFIC), ("Latency", LATENCY), ("Errors", ERRORS), ("Saturation", SATURATION), ("Pools", POOLS),
            ("History and outbox", DATABASES)]  # fmt: skip
    return dashboard("fleet", "Fleet", "All queues and workers by their golden signals.", variables, rows)
