//! Every metric there is. What is not listed here is not recorded; the documentation is made from this list.

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts observations in buckets with these upper bounds.
    Histogram(&'static [f64]),
}

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Descriptor {
    /// Its name, with the unit at the end.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// The unit; empty for a plain number.
    pub unit: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

/// Bounds for how long handlers run: 5 ms to 6 h.
const RUN: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0,
    3600.0, 21600.0,
];

/// Bounds for how long jobs wait: 1 ms to 1 h.
const WAIT: &[f64] = &[
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0,
    3600.0,
];

macro_rules! catalogue {
    ($($constant:ident = $name:literal, $kind:expr, $unit:literal, $labels:expr, $help:literal;)*) => {
        $(pub(super) const $constant: Descriptor = Descriptor {
            name: concat!("streamfleet_", $name), kind: $kind, unit: $unit, labels: &$labels, help: $help,
        };)*

        /// Every metric, in the order of the documentation.
        pub const CATALOGUE: &[Descriptor] = &[$($constant),*];
    };
}

use Kind::{Counter, Gauge, Histogram};

catalogue! {
    STARTED = "jobs_started_total", Counter, "", ["queue", "job_type"], "Attempts begun.";
    FINISHED = "jobs_finished_total", Counter, "", ["queue", "job_type", "outcome"],
        "Attempts ended, by outcome: succeeded, retried, dead, expired, snoozed, interrupted.";
    FAILURES = "job_failures_total", Counter, "", ["queue", "job_type", "reason"],
        "Attempts whose handler failed, by reason: error, timeout, panic.";
    DURATION = "job_duration_seconds", Histogram(RUN), "seconds", ["queue", "job_type"],
        "How long the handler ran in one attempt.";
    WAITED = "job_wait_seconds", Histogram(WAIT), "seconds", ["queue", "job_type"],
        "From being ready to the start of the handler; deliberate delays are left out.";
    RUNNING = "jobs_running", Gauge, "", ["queue"], "Handlers that run in this process.";
    CONCURRENCY = "worker_concurrency", Gauge, "", ["queue"], "Handlers that may run at once in this process.";
    DRAINING = "worker_draining", Gauge, "", [], "1 while this process stops.";
    LAST_POLL = "worker_last_poll_timestamp_seconds", Gauge, "seconds", ["queue"],
        "When a read of new entries last completed.";
    RECLAIMED = "jobs_reclaimed_total", Counter, "", ["queue", "reason"],
        "Entries taken over from consumers that fell silent.";
    LEASES_LOST = "leases_lost_total", Counter, "", ["queue"],
        "Running attempts whose lease was lost: another worker may have run them again.";
    FENCED = "outcomes_fenced_total", Counter, "", ["queue"],
        "Outcomes that came after their entry was taken over, and changed nothing.";
    BODIES_LOST = "bodies_lost_total", Counter, "", ["queue"],
        "Pending entries that somebody deleted: their jobs are lost.";
    GROUPS_RECREATED = "groups_recreated_total", Counter, "", ["queue"],
        "Times the streams or groups of a queue in use had to be made again.";
    LEADER = "scheduler_leader", Gauge, "", ["queue"], "1 while this process does the queue's chores.";
    PROMOTED = "scheduler_promoted_total", Counter, "", ["queue"], "Delayed jobs that became due and ready.";
    LAG = "scheduler_lag_seconds", Gauge, "seconds", ["queue"],
        "By how much the most overdue job of the last seconds was promoted late.";
    CRON_TICKS = "cron_ticks_total", Counter, "", ["queue"], "Ticks of recurring jobs that this process submitted.";
    CRON_SKIPPED = "cron_skipped_total", Counter, "", ["queue"],
        "Ticks of recurring jobs that were missed, and not made up for.";
    QUEUE_JOBS = "queue_jobs", Gauge, "", ["queue", "state"],
        "Jobs of the queue, by state: waiting, running, delayed, dead. Only the process that does its chores knows; others say 0.";
    OLDEST_WAITING = "queue_oldest_waiting_seconds", Gauge, "seconds", ["queue"],
        "How long the oldest waiting job has been in its stream. Only the process that does the chores knows; others say 0.";
    HOOK_FAILURES = "hook_failures_total", Counter, "", ["reason"],
        "Calls of hooks that failed, by reason: error, panic, timeout.";
    PUBLISHED = "events_published_total", Counter, "", [], "Events written to the streams of events.";
    UNTOLD = "events_dropped_total", Counter, "", ["whom"],
        "What a hook or the stream was not told, because it was too slow or Redis refused.";
    SPANS_EXPORTED = "spans_exported_total", Counter, "", [], "Spans that the collector took.";
    SPANS_DROPPED = "spans_dropped_total", Counter, "", ["reason"],
        "Spans that the collector did not get, by reason: full (no room to wait), refused, unreachable.";
    REDIS_UP = "redis_up", Gauge, "", [], "1 while Redis answers this process's sign of life.";
    REDIS_ERRORS = "redis_errors_total", Counter, "", ["kind"], "Commands that Redis did not do, by kind of error.";
    BUILD = "build_info", Gauge, "", ["version", "revision"], "Always 1; the labels name the build.";
}
