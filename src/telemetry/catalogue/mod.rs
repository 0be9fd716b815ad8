//! The list of all metrics. A metric that is not listed here is not recorded. docs/metrics.md is generated from this
//! list, and tests compare it with the output of a process.

mod descriptor;
mod label;

pub use descriptor::{Aggregate, Descriptor, Kind, Teller};
use label::{
    CHILD, COMMAND, CONSUMER, ERROR, FAILURE, HOOK, JOB_TYPE, LANE, OUTCOME, PROGRAM_TYPE, QUEUE, RECLAIM,
    REVISION, SPAN_LOSS, STATE, VERSION, WHOM,
};
pub(super) use label::{CHILDREN, CONSUMERS, FAILURES, LANES, OTHER, OUTCOMES, STATES, UNKNOWN};
pub use label::{Label, Values};

/// The metrics of one subject.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Group {
    /// The subject.
    pub title: &'static str,
    /// Its metrics.
    pub metrics: &'static [Descriptor],
}

/// Every metric, in the order of the documentation.
pub(super) fn metrics() -> impl Iterator<Item = &'static Descriptor> {
    CATALOGUE.iter().flat_map(|group| group.metrics)
}

/// Bucket bounds for how long handlers run: 5 ms to 6 h.
const RUN: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0,
    3600.0, 21600.0,
];

/// Bucket bounds for how long jobs wait: 1 ms to 1 h.
const WAIT: &[f64] = &[
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0,
    3600.0,
];

/// Bucket bounds for how long Redis takes: 0.1 ms to 2.5 s.
const TRIP: &[f64] =
    &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];

/// Bucket bounds for how many attempts a job took.
const ATTEMPTS: &[f64] = &[1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 25.0];

macro_rules! catalogue {
    ($($title:literal { $($constant:ident = $descriptor:expr;)* })*) => {
        $($(pub(super) const $constant: Descriptor = $descriptor;)*)*

        /// Every metric by subject, in the order of the documentation.
        pub const CATALOGUE: &[Group] = &[$(Group { title: $title, metrics: &[$($constant),*] }),*];
    };
}

const fn counter(name: &'static str, labels: &'static [Label], help: &'static str) -> Descriptor {
    Descriptor::counter(name, labels, help)
}

const fn gauge(name: &'static str, labels: &'static [Label], help: &'static str) -> Descriptor {
    Descriptor::gauge(name, labels, help)
}

catalogue! {
    "Jobs" {
        STARTED = counter("streamfleet_jobs_started_total", &[QUEUE, JOB_TYPE], "Attempts begun.");
        STARTED_LATE = counter("streamfleet_jobs_started_late_total", &[QUEUE, JOB_TYPE],
            "Attempts begun later after being ready than the queue's latency objective.");
        FINISHED = counter("streamfleet_jobs_finished_total", &[QUEUE, JOB_TYPE, OUTCOME],
            "Attempts ended, by outcome.");
        FAILURES_TOTAL = counter("streamfleet_job_failures_total", &[QUEUE, JOB_TYPE, FAILURE],
            "Attempts that failed, by reason; lost: their worker fell silent.");
        DURATION = Descriptor::histogram("streamfleet_job_duration_seconds", RUN, &[QUEUE, JOB_TYPE],
            "How long the handler ran in one attempt.");
        WAITED = Descriptor::histogram("streamfleet_job_wait_seconds", WAIT, &[QUEUE, JOB_TYPE],
            "From being ready to the start of the handler; deliberate delays are left out.");
        COMPLETION = Descriptor::histogram("streamfleet_job_completion_seconds", RUN, &[QUEUE, JOB_TYPE],
            "From being accepted to the end of the job: done, dead, expired, or cancelled by a worker. Delays and retries are in it.");
        USED_ATTEMPTS = Descriptor::histogram("streamfleet_job_attempts", ATTEMPTS, &[QUEUE, JOB_TYPE],
            "Attempts that a job took to its end: failures, lost workers and the last one.");
        CHILDREN_TOTAL = counter("streamfleet_child_processes_total", &[PROGRAM_TYPE, CHILD],
            "Programs run by exec handlers, by how they ended; failed: another exit code than 0; timeout: the attempt's time was up.");
    }
    "Workers" {
        RUNNING = gauge("streamfleet_jobs_running", &[QUEUE], "Handlers that run in this process.");
        OLDEST_RUNNING = gauge("streamfleet_jobs_running_oldest_seconds", &[QUEUE],
            "How long the longest running attempt of this process has run; 0 where none runs.").max();
        CONCURRENCY = gauge("streamfleet_worker_concurrency", &[QUEUE], "Handlers that may run at once in this process.");
        DRAINING = gauge("streamfleet_worker_draining", &[], "1 while this process stops.");
        LAST_POLL = gauge("streamfleet_worker_last_poll_timestamp_seconds", &[QUEUE],
            "When a read of new entries last completed.").max();
        RECLAIMED = counter("streamfleet_jobs_reclaimed_total", &[QUEUE, RECLAIM],
            "Entries taken over from consumers that fell silent.");
        LEASES_LOST = counter("streamfleet_leases_lost_total", &[QUEUE],
            "Running attempts whose lease was lost: another worker may have run them again.");
        FENCED = counter("streamfleet_outcomes_fenced_total", &[QUEUE],
            "Outcomes that came after their entry was taken over, and changed nothing.");
        SET_ASIDE = counter("streamfleet_jobs_set_aside_total", &[QUEUE],
            "Jobs that wait aside because Redis refuses what they need: a key of another type, or a missing right. The others go on.");
        SERVED = gauge("streamfleet_worker_queue_served", &[QUEUE],
            "1 while this process serves the queue; 0 while it has not joined it, or Redis refuses what that needs: a key of another type, or a missing right.");
        BODIES_LOST = counter("streamfleet_bodies_lost_total", &[QUEUE],
            "Pending entries that somebody deleted: their jobs are lost.");
        GROUPS_RECREATED = counter("streamfleet_groups_recreated_total", &[QUEUE],
            "Times that streams or groups of a queue in use had to be made again.");
        LEASE = gauge("streamfleet_queue_lease_seconds", &[QUEUE],
            "How long an entry may be silent before it is taken over, as the fleet agreed.").max();
        TIMEOUT = gauge("streamfleet_queue_timeout_seconds", &[QUEUE],
            "The longest timeout of this process's types; of steps, the sum of a type's. Jobs with a timeout of their own may exceed it.").max();
        LATENCY_OBJECTIVE = gauge("streamfleet_queue_latency_objective_seconds", &[QUEUE],
            "How long a ready job may wait, as queues.<queue>.objectives.latency says.").max();
        DEAD_OBJECTIVE = gauge("streamfleet_queue_dead_ratio_objective", &[QUEUE],
            "Which part of the jobs that end may die, as queues.<queue>.objectives.dead_ratio says.").max();
    }
    "Queues" {
        QUEUE_JOBS = gauge("streamfleet_queue_jobs", &[QUEUE, STATE], "Jobs of the queue, by state.").of_leader();
        BACKLOG = gauge("streamfleet_queue_backlog_jobs", &[QUEUE],
            "Jobs that wait, run, or are due within 60 s: the number to scale on.").of_leader();
        LATENCY = gauge("streamfleet_queue_latency_seconds", &[QUEUE],
            "How long the oldest waiting job has been in its stream; 0 where none waits.").of_leader();
        OVERDUE = gauge("streamfleet_queue_overdue_seconds", &[QUEUE],
            "How long the most overdue delayed job should have been promoted.").of_leader();
        OLDEST_PENDING = gauge("streamfleet_queue_oldest_pending_seconds", &[QUEUE],
            "The longest silence of an entry that a worker holds. Up to the lease, or where more than 10,000 are held, it is taken from the oldest hundred entries of each lane.").of_leader();
        ENTRIES_ADDED = counter("streamfleet_queue_entries_added_total", &[QUEUE, LANE],
            "Entries that came to a lane, retries among them, while this process did the chores.").of_leader();
        QUEUE_CONSUMERS = gauge("streamfleet_queue_consumers", &[QUEUE, CONSUMER],
            "Members of the group; stale ones were not heard of for 20 s, or, where they are many, for 0.6 s times their number.").of_leader();
        OLDEST_DEAD = gauge("streamfleet_dead_jobs_oldest_seconds", &[QUEUE],
            "The age of the oldest dead letter; 0 where there is none.").of_leader();
        EVICTED = counter("streamfleet_dead_jobs_evicted_total", &[QUEUE], "Dead letters that retention dropped.");
        CRON_OVERDUE = gauge("streamfleet_cron_overdue_seconds", &[QUEUE],
            "How overdue the most overdue recurring job is; below a second is usual.").of_leader();
        COLLECTED = gauge("streamfleet_collector_last_success_timestamp_seconds", &[QUEUE],
            "When the figures of this table were last read.").of_leader();
        COLLECTOR_DURATION = gauge("streamfleet_collector_duration_seconds", &[QUEUE],
            "How long it took to read them.").of_leader();
    }
    "Chores" {
        LEADER = gauge("streamfleet_scheduler_leader", &[QUEUE], "1 while this process does the queue's chores.");
        LAST_TICK = gauge("streamfleet_scheduler_last_tick_timestamp_seconds", &[QUEUE],
            "When this process last looked for due jobs, while it does the chores.").of_leader();
        PROMOTED = counter("streamfleet_scheduler_promoted_total", &[QUEUE], "Delayed jobs that became due and ready.");
        LAG = gauge("streamfleet_scheduler_lag_seconds", &[QUEUE],
            "By how much the most overdue job of the last seconds was promoted late.").max();
        CRON_TICKS = counter("streamfleet_cron_ticks_total", &[QUEUE],
            "Ticks of recurring jobs that this process submitted.");
        CRON_SKIPPED = counter("streamfleet_cron_skipped_total", &[QUEUE],
            "Ticks of recurring jobs that were missed, and not made up for.");
        CLOCK_SET_BACK = counter("streamfleet_redis_clock_set_back_total", &[QUEUE],
            "Times that the clock of the queue's Redis was set back by more than a minute, while this process did the chores.");
    }
    "Hooks, events and spans" {
        HOOK_FAILURES = counter("streamfleet_hook_failures_total", &[HOOK], "Calls of hooks that failed, by reason.");
        PUBLISHED = counter("streamfleet_events_published_total", &[], "Events written to the streams of events.");
        UNTOLD = counter("streamfleet_events_dropped_total", &[WHOM],
            "What a hook or the stream was not told, because it was too slow or Redis refused.");
        SPANS_EXPORTED = counter("streamfleet_spans_exported_total", &[], "Spans that the collector took.");
        SPANS_DROPPED = counter("streamfleet_spans_dropped_total", &[SPAN_LOSS],
            "Spans that the collector did not get; full: there was no room for them to wait.");
    }
    "Redis" {
        REDIS_UP = gauge("streamfleet_redis_up", &[], "1 while Redis answers this process's sign of life.").max();
        REDIS_ERRORS = counter("streamfleet_redis_errors_total", &[ERROR], "Commands that Redis did not do, by kind of error.");
        COMMANDS = Descriptor::histogram("streamfleet_redis_command_duration_seconds", TRIP, &[COMMAND],
            "How long one round trip took, as seen by this process; reads that wait for entries are left out.");
        RECONNECTS = counter("streamfleet_redis_reconnects_total", &[], "Connections to Redis that had to be made again.");
        MEMORY_USED = gauge("streamfleet_redis_memory_used_bytes", &[],
            "The memory that Redis uses. Told by the processes that do some queue's chores.").of_leader();
        MEMORY_MAX = gauge("streamfleet_redis_memory_max_bytes", &[],
            "Redis's maxmemory; 0 for no bound. Told by the processes that do some queue's chores.").of_leader();
        EVICTION_SAFE = gauge("streamfleet_redis_eviction_safe", &[],
            "1 where maxmemory-policy is noeviction. Told by the processes that do some queue's chores.").of_leader();
    }
    "Process" {
        BUILD = gauge("streamfleet_build_info", &[VERSION, REVISION], "Always 1; the labels name the build.");
        TOKIO_WORKERS = gauge("streamfleet_tokio_workers", &[], "Threads that run handlers.");
        TOKIO_BUSY = gauge("streamfleet_tokio_busy_ratio", &[],
            "Which part of their time these threads were busy in the last seconds.").max();
        TOKIO_TASKS = gauge("streamfleet_tokio_tasks", &[], "Tasks that are alive.");
        TOKIO_QUEUED = gauge("streamfleet_tokio_queued_tasks", &[],
            "Tasks that wait for a thread in the queue that the threads share.").max();
        CPU = counter("process_cpu_seconds_total", &[], "Processor time of this process, without that of its programs.");
        RESIDENT = gauge("process_resident_memory_bytes", &[], "Memory of this process in RAM.");
        OPEN_FDS = gauge("process_open_fds", &[], "Files and connections that this process has open.");
        MAX_FDS = gauge("process_max_fds", &[], "How many it may have open.").max();
        START_TIME = gauge("process_start_time_seconds", &[], "When this process started.").max();
        THREADS = gauge("process_threads", &[], "Threads of this process.");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_follow_the_rules_and_are_there_once() {
        let mut names = BTreeSet::new();
        for metric in metrics() {
            let Descriptor { name, kind, help, .. } = metric;
            assert!(names.insert(name), "{name} is there twice");
            assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
            assert!(name.starts_with("streamfleet_") || name.starts_with("process_"), "{name}");
            assert!(help.ends_with('.') && !help.contains('\n'), "{name}: {help}");
        }
    }

    #[test]
    fn labels_are_never_called_as_prometheus_calls_its_own() {
        for label in metrics().flat_map(|metric| metric.labels) {
            assert!(!["job", "instance", "le", "quantile"].contains(&label.name), "{label:?}");
        }
    }

    #[test]
    fn bounds_grow() {
        for metric in metrics() {
            if let Kind::Histogram(bounds) = metric.kind {
                assert!(bounds.is_sorted_by(|one, next| one < next), "{}", metric.name);
            }
        }
    }
}
