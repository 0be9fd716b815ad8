//! The list of all metrics. A metric that is not listed here is not recorded. docs/metrics.md is generated from this
//! list, and tests compare it with the output of a process.

mod descriptor;
mod label;

pub use descriptor::{Aggregate, Descriptor, Kind, ReportedBy};
use label::{
    CHILD, COMMAND, CONSUMER, DATABASE_ERROR, ERROR, FAILURE, HISTORY_QUEUE, HOOK, INCIDENT, JOB_TYPE, LANE,
    MESSAGE, OUTBOX_ERROR, OUTCOME, POOL, POOL_ENDING, PROGRAM, PROGRAM_TYPE, QUEUE, RECIPIENT, RECLAIM,
    REVISION, SINK, PUSH, SPAN_LOSS, STATE, VERSION,
};
pub(super) use label::{
    CHILDREN, CONSUMERS, DATABASE_ERRORS, FAILURES, MESSAGES, OTHER, OUTBOX_ERRORS, OUTCOMES, PROGRAMS,
    STATES, UNKNOWN,
};
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
        STARTED = counter("streamfleet_jobs_started_total", &[QUEUE, JOB_TYPE], "Attempts started.");
        STARTED_LATE = counter("streamfleet_jobs_started_late_total", &[QUEUE, JOB_TYPE],
            "Attempts that started later than the queue's latency objective allows, measured from when they were ready.");
        FINISHED = counter("streamfleet_jobs_finished_total", &[QUEUE, JOB_TYPE, OUTCOME],
            "Attempts that ended, by outcome.");
        FAILURES_TOTAL = counter("streamfleet_job_failures_total", &[QUEUE, JOB_TYPE, FAILURE],
            "Attempts that failed, by reason; lost: the worker stopped responding.");
        DURATION = Descriptor::histogram("streamfleet_job_duration_seconds", RUN, &[QUEUE, JOB_TYPE],
            "How long the handler ran in one attempt.");
        WAITED = Descriptor::histogram("streamfleet_job_wait_seconds", WAIT, &[QUEUE, JOB_TYPE],
            "Time from becoming ready to the start of the handler, without deliberate delays.");
        COMPLETION = Descriptor::histogram("streamfleet_job_completion_seconds", RUN, &[QUEUE, JOB_TYPE],
            "Time from being accepted to the end of the job (done, dead, expired, or cancelled by a worker), including delays and retries.");
        USED_ATTEMPTS = Descriptor::histogram("streamfleet_job_attempts", ATTEMPTS, &[QUEUE, JOB_TYPE],
            "Attempts per job until it ended: failures, lost workers and the last attempt.");
        CHILDREN_TOTAL = counter("streamfleet_child_processes_total", &[PROGRAM_TYPE, CHILD],
            "Programs run by exec handlers, by how they ended; failed: an exit code other than 0; timeout: the attempt timed out.");
    }
    "Pools" {
        POOL_PROCESSES = gauge("streamfleet_pool_processes", &[POOL, PROGRAM],
            "Programs of the pool in this process, by what they are doing; leaving: they take no more jobs, and end after those that they have.");
        POOL_RESTARTS = counter("streamfleet_pool_restarts_total", &[POOL, POOL_ENDING],
            "Programs of the pool that ended or failed to start, by reason; cut: the program did not end an attempt that was cut short.");
        POOL_MEMORY = gauge("streamfleet_pool_memory_bytes", &[POOL],
            "Resident memory of the pool's programs together, without that of programs that they run.");
    }
    "Workers" {
        RUNNING = gauge("streamfleet_jobs_running", &[QUEUE], "Handlers running in this process.");
        OLDEST_RUNNING = gauge("streamfleet_jobs_running_oldest_seconds", &[QUEUE],
            "How long the longest-running attempt in this process has been running; 0 if none is.").max();
        LIMITED = gauge("streamfleet_worker_limited_jobs", &[QUEUE],
            "Jobs that wait in this process because as many of their type or key run as may. Jobs that went back to Redis meanwhile are not included.");
        CONCURRENCY = gauge("streamfleet_worker_concurrency", &[QUEUE],
            "Slots of the queue in this process: its concurrency, or what all types together may use, if that is less.");
        DRAINING = gauge("streamfleet_worker_draining", &[], "1 while this process is stopping.");
        LAST_POLL = gauge("streamfleet_worker_last_poll_timestamp_seconds", &[QUEUE],
            "When a read of new entries last completed.").max();
        RECLAIMED = counter("streamfleet_jobs_reclaimed_total", &[QUEUE, RECLAIM],
            "Entries taken over from consumers that stopped responding.");
        ORPHANS_RECLAIMED = counter("streamfleet_orphans_reclaimed_total", &[QUEUE],
            "Entries that nobody held and that the leader made pending again; their jobs may run a second time.");
        LEASES_LOST = counter("streamfleet_leases_lost_total", &[QUEUE],
            "Running attempts whose lease was lost: another worker may have run them again.");
        FENCED = counter("streamfleet_outcomes_fenced_total", &[QUEUE],
            "Outcomes that arrived after their entry was taken over, and so changed nothing.");
        GRANTED = counter("streamfleet_gates_granted_total", &[QUEUE],
            "Jobs that passed all their gates before they started. Jobs that meet no gate with a rule are not counted.");
        REFUSED = counter("streamfleet_gates_refused_total", &[QUEUE],
            "Jobs that a gate refused, because it is closed or its limit is reached.");
        PARKED = counter("streamfleet_jobs_parked_total", &[QUEUE],
            "Jobs moved to a waiting list: a gate refused them, because it is closed or its limit is reached, or this process does not know their type.");
        SORTED = counter("streamfleet_jobs_sorted_total", &[QUEUE],
            "Jobs moved to the waiting list of their value, because a flood waits in a queue that is shared between the values of a field.");
        LET_OUT = counter("streamfleet_jobs_let_out_total", &[QUEUE],
            "Jobs that the leader moved from waiting lists back to their lanes, or whose turn came in a shared queue. Workers move others when their own jobs end.");
        SET_ASIDE = counter("streamfleet_jobs_set_aside_total", &[QUEUE],
            "Jobs set aside because Redis refuses what they need: a key has the wrong type, or a permission is missing. Other jobs continue.");
        SERVED = gauge("streamfleet_worker_queue_served", &[QUEUE],
            "1 while this process serves the queue; 0 if it has not joined it yet, or Redis refuses what it needs: a key has the wrong type, or a permission is missing.");
        BODIES_LOST = counter("streamfleet_bodies_lost_total", &[QUEUE],
            "Pending entries that somebody deleted; their jobs are lost.");
        GROUPS_RECREATED = counter("streamfleet_groups_recreated_total", &[QUEUE],
            "Times that streams or groups of a queue in use had to be recreated.");
        LEASE = gauge("streamfleet_queue_lease_seconds", &[QUEUE],
            "The lease that the fleet agreed on: how long an entry may be idle before it is taken over.").max();
        TIMEOUT = gauge("streamfleet_queue_timeout_seconds", &[QUEUE],
            "The longest timeout of this process's types; for a type with steps, the sum of its steps' timeouts. Jobs with a timeout of their own may exceed it.").max();
        LATENCY_OBJECTIVE = gauge("streamfleet_queue_latency_objective_seconds", &[QUEUE],
            "How long a ready job may wait, as set by queues.<queue>.objectives.latency.").max();
        DEAD_OBJECTIVE = gauge("streamfleet_queue_dead_ratio_objective", &[QUEUE],
            "The fraction of jobs that may end dead, as set by queues.<queue>.objectives.dead_ratio.").max();
    }
    "Queues" {
        QUEUE_JOBS = gauge("streamfleet_queue_jobs", &[QUEUE, STATE], "Jobs of the queue, by state.").of_leader();
        IN_ROOMS = gauge("streamfleet_queue_rooms_jobs", &[QUEUE],
            "Those of the waiting jobs that a gate does not let pass.").of_leader();
        GATES_CLOSED = gauge("streamfleet_queue_gates_closed", &[QUEUE],
            "Gates that somebody has closed, the whole queue's included.").of_leader();
        BREAKERS_OPEN = gauge("streamfleet_queue_breakers_open", &[QUEUE],
            "Gates that their breakers have closed after failures. Breakers of single values of a field count while jobs wait for them, in up to 1000 waiting lists.").of_leader();
        IN_FAIR_ROOMS = gauge("streamfleet_queue_fair_jobs", &[QUEUE],
            "Those of the waiting jobs that wait for the turn of their value, in a queue that is shared between the values of a field.").of_leader();
        PAUSED = gauge("streamfleet_queue_paused_seconds", &[QUEUE],
            "For how long the whole queue has been paused; 0 if it is not.").of_leader();
        BACKLOG = gauge("streamfleet_queue_backlog_jobs", &[QUEUE],
            "Jobs that are waiting, running, or due within 60 s; use it for scaling. All jobs that wait for a gate count as one, and a paused queue has only running ones.").of_leader();
        LATENCY = gauge("streamfleet_queue_latency_seconds", &[QUEUE],
            "How long the oldest waiting job has been in its lane, or at gates; 0 if none is waiting.").of_leader();
        OVERDUE = gauge("streamfleet_queue_overdue_seconds", &[QUEUE],
            "How long ago the most overdue delayed job should have been promoted.").of_leader();
        OLDEST_PENDING = gauge("streamfleet_queue_oldest_pending_seconds", &[QUEUE],
            "The longest idle time of an entry that a worker holds. Up to the lease, or if more than 10,000 entries are held, only the oldest hundred entries of each lane are checked.").of_leader();
        ENTRIES_ADDED = counter("streamfleet_queue_entries_added_total", &[QUEUE, LANE],
            "Entries added to a lane, including retries, while this process was the leader.").of_leader();
        QUEUE_CONSUMERS = gauge("streamfleet_queue_consumers", &[QUEUE, CONSUMER],
            "Members of the group; stale ones have not reported for 20 s, or, if there are many, for 0.6 s times their number.").of_leader();
        UNSERVED_TYPES = gauge("streamfleet_queue_unserved_types", &[QUEUE],
            "Types that no live worker of the queue knows, and of which jobs wait; the log and `streamfleet queues` name them.").of_leader();
        UNSERVED_JOBS = gauge("streamfleet_queue_unserved_jobs", &[QUEUE],
            "Jobs that wait because no live worker of the queue knows their type.").of_leader();
        OLDEST_DEAD = gauge("streamfleet_dead_jobs_oldest_seconds", &[QUEUE],
            "The age of the oldest dead letter; 0 if there is none.").of_leader();
        EVICTED = counter("streamfleet_dead_jobs_evicted_total", &[QUEUE], "Dead letters dropped by retention.");
        ARCHIVED = counter("streamfleet_dead_jobs_archived_total", &[QUEUE],
            "Dead letters written to the archive before retention drops them.");
        ARCHIVE_FAILURES = counter("streamfleet_dead_archive_failures_total", &[QUEUE],
            "Failed attempts to write the archive; the dead letters stay until it can be written.");
        CAMPAIGNS = gauge("streamfleet_campaigns_running", &[QUEUE],
            "Campaigns that replay dead letters, or wait for the ends of their jobs.").of_leader();
        CAMPAIGN_REPLAYED = counter("streamfleet_campaign_jobs_replayed_total", &[QUEUE],
            "Dead letters that campaigns replayed while this process was the leader.").of_leader();
        CAMPAIGN_SUCCEEDED = counter("streamfleet_campaign_jobs_succeeded_total", &[QUEUE],
            "Jobs of campaigns that succeeded while this process was the leader.").of_leader();
        CAMPAIGN_DIED = counter("streamfleet_campaign_jobs_died_total", &[QUEUE],
            "Jobs of campaigns that died again, or began to wait for a decision, while this process was the leader.").of_leader();
        CAMPAIGNS_STOPPED = counter("streamfleet_campaigns_stopped_total", &[QUEUE],
            "Campaigns that stopped themselves while this process was the leader.").of_leader();
        CRON_OVERDUE = gauge("streamfleet_cron_overdue_seconds", &[QUEUE],
            "How overdue the most overdue recurring job is; less than a second is normal.").of_leader();
        COLLECTED = gauge("streamfleet_collector_last_success_timestamp_seconds", &[QUEUE],
            "When the queue's figures were last read.").of_leader();
        COLLECTOR_DURATION = gauge("streamfleet_collector_duration_seconds", &[QUEUE],
            "How long reading the queue's figures took.").of_leader();
    }
    "Maintenance" {
        LEADER = gauge("streamfleet_scheduler_leader", &[QUEUE], "1 while this process is the queue's leader.");
        LAST_TICK = gauge("streamfleet_scheduler_last_tick_timestamp_seconds", &[QUEUE],
            "When this process last looked for due jobs, while it is the leader.").of_leader();
        PROMOTED = counter("streamfleet_scheduler_promoted_total", &[QUEUE], "Delayed jobs that became due and were promoted.");
        LAG = gauge("streamfleet_scheduler_lag_seconds", &[QUEUE],
            "How late the most overdue job of the last few seconds was promoted.").max();
        CRON_TICKS = counter("streamfleet_cron_ticks_total", &[QUEUE],
            "Ticks of recurring jobs that this process submitted.");
        CRON_SKIPPED = counter("streamfleet_cron_skipped_total", &[QUEUE],
            "Ticks of recurring jobs that were missed and skipped.");
        CLOCK_SET_BACK = counter("streamfleet_redis_clock_set_back_total", &[QUEUE],
            "Times that the clock of the queue's Redis was set back by more than a minute while this process was the leader.");
    }
    "Hooks, events and spans" {
        HOOK_FAILURES = counter("streamfleet_hook_failures_total", &[HOOK], "Hook calls that failed, by reason.");
        PUBLISHED = counter("streamfleet_events_published_total", &[], "Events written to the event streams.");
        NOTIFICATIONS_DROPPED = counter("streamfleet_events_dropped_total", &[RECIPIENT],
            "Notifications that a hook or the event stream did not get, because it was too slow or Redis refused them.");
        SPANS_EXPORTED = counter("streamfleet_spans_exported_total", &[], "Spans that the collector accepted.");
        SPANS_DROPPED = counter("streamfleet_spans_dropped_total", &[SPAN_LOSS],
            "Spans that the collector did not get; full: the queue of spans to export was full.");
        PUSHES = counter("streamfleet_metric_pushes_total", &[PUSH],
            "Pushes of these metrics to a collector, by what became of them; unreachable: no answer, or it cannot take them now.");
    }
    "Alerts" {
        INCIDENTS_OPEN = gauge("streamfleet_alerts_incidents", &[INCIDENT],
            "Open incidents, by kind. Reported by the process that sends messages about them.").max();
        ALERT_MESSAGES = counter("streamfleet_alerts_messages_total", &[SINK, MESSAGE],
            "Messages about incidents, by what became of them; failed: the sink did not take the message, which is sent again; given_up: the sink gets it with the next reminder.");
    }
    "History and outbox" {
        HISTORY_WRITTEN = counter("streamfleet_history_ends_written_total", &[HISTORY_QUEUE],
            "Ends of jobs that the database of the history has taken.");
        HISTORY_JOURNAL_ENDS = gauge("streamfleet_history_journal_ends", &[HISTORY_QUEUE],
            "Ends of jobs that wait in the journal to be written. Reported by the process that writes the history of the queue.").max();
        HISTORY_JOURNAL_BYTES = gauge("streamfleet_history_journal_bytes", &[HISTORY_QUEUE],
            "About how much of Redis the journal takes. Reported by that process.").max();
        HISTORY_JOURNAL_MAX = gauge("streamfleet_history_journal_max_bytes", &[HISTORY_QUEUE],
            "How much the journal may take. Reported by that process.").max();
        HISTORY_JOURNAL_AGE = gauge("streamfleet_history_journal_oldest_age_seconds", &[HISTORY_QUEUE],
            "For how long the oldest end of the journal has waited. Reported by that process.").max();
        HISTORY_LOST = gauge("streamfleet_history_lost_ends", &[HISTORY_QUEUE],
            "Ends of the last day that found no room in the journal; the history lacks them. Reported by that process.").max();
        HISTORY_COMMITTED = gauge("streamfleet_history_last_commit_age_seconds", &[HISTORY_QUEUE],
            "How long ago that process last committed ends, also if there were none to write; 0 before the first time.").max();
        HISTORY_SPILLED_FILES = gauge("streamfleet_history_spilled_files", &[HISTORY_QUEUE],
            "Files of this process with ends that the journal had no room for.");
        HISTORY_SPILLED_BYTES = gauge("streamfleet_history_spilled_bytes", &[HISTORY_QUEUE], "The size of these files.");
        HISTORY_ERRORS = counter("streamfleet_history_errors_total", &[HISTORY_QUEUE, DATABASE_ERROR],
            "Attempts to write the history that failed, by class; transient: waiting helps, poison: the database refuses a row.");
        OUTBOX_RELAYED = counter("streamfleet_outbox_rows_relayed_total", &[], "Rows of the outbox that became jobs.");
        OUTBOX_REFUSED = counter("streamfleet_outbox_rows_refused_total", &[], "Rows of the outbox that can never be jobs.");
        OUTBOX_WAITING = gauge("streamfleet_outbox_waiting_rows", &[],
            "Rows of the outbox that wait, counted up to 10,000. Reported by the process that relays it.").max();
        OUTBOX_KEPT = gauge("streamfleet_outbox_refused_rows", &[],
            "Rows of the outbox that were refused and are still there, counted up to 10,000. Reported by that process.").max();
        OUTBOX_AGE = gauge("streamfleet_outbox_oldest_age_seconds", &[],
            "For how long the oldest row of the outbox has waited. Reported by that process.").max();
        OUTBOX_ERRORS_TOTAL = counter("streamfleet_outbox_errors_total", &[OUTBOX_ERROR],
            "Attempts to relay the outbox that failed, by class; redis: Redis took no job.");
    }
    "Redis" {
        REDIS_UP = gauge("streamfleet_redis_up", &[], "1 while Redis answers this process's heartbeats.").max();
        REDIS_ERRORS = counter("streamfleet_redis_errors_total", &[ERROR], "Commands that failed, by kind of error.");
        COMMANDS = Descriptor::histogram("streamfleet_redis_command_duration_seconds", TRIP, &[COMMAND],
            "How long one round trip took, as seen by this process, without reads that wait for entries.");
        RECONNECTS = counter("streamfleet_redis_reconnects_total", &[], "Connections to Redis that had to be reestablished.");
        MEMORY_USED = gauge("streamfleet_redis_memory_used_bytes", &[],
            "The memory that Redis uses. Reported by processes that lead a queue.").of_leader();
        MEMORY_MAX = gauge("streamfleet_redis_memory_max_bytes", &[],
            "Redis's maxmemory; 0 for no limit. Reported by processes that lead a queue.").of_leader();
        EVICTION_SAFE = gauge("streamfleet_redis_eviction_safe", &[],
            "1 if maxmemory-policy is noeviction. Reported by processes that lead a queue.").of_leader();
    }
    "Process" {
        BUILD = gauge("streamfleet_build_info", &[VERSION, REVISION], "Always 1; the labels name the build.");
        TOKIO_WORKERS = gauge("streamfleet_tokio_workers", &[], "Threads that run handlers.");
        TOKIO_BUSY = gauge("streamfleet_tokio_busy_ratio", &[],
            "The fraction of time that these threads were busy in the last few seconds.").max();
        TOKIO_TASKS = gauge("streamfleet_tokio_tasks", &[], "Tasks that are alive.");
        TOKIO_QUEUED = gauge("streamfleet_tokio_queued_tasks", &[],
            "Tasks that wait for a thread in the queue shared by all threads.").max();
        CPU = counter("process_cpu_seconds_total", &[], "CPU time of this process, without that of the programs it runs.");
        RESIDENT = gauge("process_resident_memory_bytes", &[], "Resident memory of this process.");
        OPEN_FDS = gauge("process_open_fds", &[], "Files and connections that this process has open.");
        MAX_FDS = gauge("process_max_fds", &[], "How many files and connections this process may have open.").max();
        START_TIME = gauge("process_start_time_seconds", &[], "When this process started.").max();
        THREADS = gauge("process_threads", &[], "Threads of this process.");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_follow_the_rules_and_are_unique() {
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
    fn no_label_has_a_name_that_prometheus_uses() {
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
