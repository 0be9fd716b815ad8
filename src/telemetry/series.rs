//! The handles of the series, made once at the start: recording needs no allocation, and one or two look-ups in small
//! tables that never change.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::PrometheusRecorder;
use rustc_hash::FxHashMap;

use super::catalogue::{self, CATALOGUE, Descriptor, Kind};
use crate::event::{Ending, HookFailure, SpanLoss, Told};
use crate::job::{FailureKind, JobType, QueueName};

/// At most so many pairs of queue and type have series of their own in one process.
pub(super) const PAIRS_MAX: usize = 200;

/// The label of a type that this process has no handler for.
const UNKNOWN: &str = "_unknown";

/// The label of types beyond [`PAIRS_MAX`].
const OTHER: &str = "_other";

/// Makes series in one recorder.
pub(super) struct Maker<'a>(pub(super) &'a PrometheusRecorder);

impl Maker<'_> {
    /// Tells the recorder what each metric means.
    pub(super) fn describe(&self) {
        for Descriptor { name, kind, help, .. } in CATALOGUE {
            match kind {
                Kind::Counter => self.0.describe_counter((*name).into(), None, (*help).into()),
                Kind::Gauge => self.0.describe_gauge((*name).into(), None, (*help).into()),
                Kind::Histogram(_) => self.0.describe_histogram((*name).into(), None, (*help).into()),
            }
        }
    }

    /// A counter that is there from the start, as 0: without it the first increase would be missed.
    pub(super) fn counter(&self, descriptor: &Descriptor, values: &[&str]) -> Counter {
        let counter = self.0.register_counter(&key(descriptor, values), &METADATA);
        counter.absolute(0);
        counter
    }

    pub(super) fn gauge(&self, descriptor: &Descriptor, values: &[&str]) -> Gauge {
        let gauge = self.0.register_gauge(&key(descriptor, values), &METADATA);
        gauge.set(0.0);
        gauge
    }

    fn histogram(&self, descriptor: &Descriptor, values: &[&str]) -> Histogram {
        self.0.register_histogram(&key(descriptor, values), &METADATA)
    }
}

const METADATA: Metadata<'static> = Metadata::new("streamfleet", Level::INFO, None);

fn key(descriptor: &Descriptor, values: &[&str]) -> Key {
    debug_assert_eq!(descriptor.labels.len(), values.len(), "{}", descriptor.name);
    let labels = descriptor.labels.iter().zip(values);
    let labels: Vec<Label> = labels.map(|(name, value)| Label::new(*name, (*value).to_owned())).collect();
    Key::from_parts(descriptor.name, labels)
}

/// The series of one queue.
pub(super) struct QueueSeries {
    pub(super) running: Gauge,
    pub(super) last_poll: Gauge,
    pub(super) reclaimed: Counter,
    pub(super) leases_lost: Counter,
    pub(super) fenced: Counter,
    pub(super) bodies_lost: Counter,
    pub(super) groups_recreated: Counter,
    leader: Gauge,
    jobs: [Gauge; STATES.len()],
    oldest_waiting: Gauge,
    pub(super) promoted: Counter,
    pub(super) cron_ticks: Counter,
    pub(super) cron_skipped: Counter,
    lag: Gauge,
    lag_max_us: AtomicU64,
    types: FxHashMap<JobType, TypeSeries>,
    unknown: TypeSeries,
    /// Of the types that found no room, where there are any.
    other: Option<TypeSeries>,
    known: Vec<JobType>,
}

/// The series of one queue and type.
pub(super) struct TypeSeries {
    pub(super) started: Counter,
    pub(super) duration: Histogram,
    pub(super) wait: Histogram,
    finished: [Counter; OUTCOMES.len()],
    failures: [Counter; FAILURES.len()],
}

/// The values of `outcome`, in the order of [`outcome`].
const OUTCOMES: [&str; 7] =
    ["succeeded", "retried", "dead", "expired", "snoozed", "interrupted", "cancelled"];

/// The values of `reason`, in the order of [`TypeSeries::failure`].
const FAILURES: [FailureKind; 3] = [FailureKind::Error, FailureKind::Timeout, FailureKind::Panic];

/// The values of `state` for a queue's jobs.
const STATES: [&str; 4] = ["waiting", "running", "delayed", "dead"];

/// The series of those who are told of jobs.
pub(super) struct AudienceSeries {
    pub(super) published: Counter,
    pub(super) spans_exported: Counter,
    hook_failures: [Counter; 3],
    untold: [Counter; 2],
    spans_dropped: [Counter; SpanLoss::ALL.len()],
}

impl AudienceSeries {
    pub(super) fn new(maker: &Maker<'_>) -> Self {
        let failures = [HookFailure::Error, HookFailure::Panic, HookFailure::Timeout];
        let failure = |kind: HookFailure| maker.counter(&catalogue::HOOK_FAILURES, &[kind.as_str()]);
        let untold = |whom: Told| maker.counter(&catalogue::UNTOLD, &[whom.as_str()]);
        Self {
            published: maker.counter(&catalogue::PUBLISHED, &[]),
            spans_exported: maker.counter(&catalogue::SPANS_EXPORTED, &[]),
            spans_dropped: SpanLoss::ALL
                .map(|loss| maker.counter(&catalogue::SPANS_DROPPED, &[loss.as_str()])),
            hook_failures: failures.map(failure),
            untold: [Told::Hook, Told::Stream].map(untold),
        }
    }

    /// Counts a call that failed.
    pub(super) fn failed(&self, kind: HookFailure) {
        let at = match kind {
            HookFailure::Error => 0,
            HookFailure::Panic => 1,
            HookFailure::Timeout => 2,
        };
        self.hook_failures[at].increment(1);
    }

    /// Counts spans that the collector did not get.
    pub(super) fn dropped(&self, loss: SpanLoss, spans: u64) {
        let at = match loss {
            SpanLoss::Full => 0,
            SpanLoss::Refused => 1,
            SpanLoss::Unreachable => 2,
        };
        self.spans_dropped[at].increment(spans);
    }

    /// Counts what somebody was not told.
    pub(super) fn untold(&self, whom: Told, facts: u64) {
        let at = match whom {
            Told::Hook => 0,
            Told::Stream => 1,
        };
        self.untold[at].increment(facts);
    }
}

impl QueueSeries {
    /// The series of a queue, for these types as far as `room` allows.
    pub(super) fn new(maker: &Maker<'_>, queue: &QueueName, types: &[JobType], room: &mut usize) -> Self {
        let name = queue.as_str();
        let own = types.len().min(*room);
        *room -= own;
        let (own, rest) = types.split_at(own);
        let series = |job_type: &str| TypeSeries::new(maker, name, job_type);
        Self {
            running: maker.gauge(&catalogue::RUNNING, &[name]),
            last_poll: maker.gauge(&catalogue::LAST_POLL, &[name]),
            reclaimed: maker.counter(&catalogue::RECLAIMED, &[name, "idle"]),
            leases_lost: maker.counter(&catalogue::LEASES_LOST, &[name]),
            fenced: maker.counter(&catalogue::FENCED, &[name]),
            bodies_lost: maker.counter(&catalogue::BODIES_LOST, &[name]),
            groups_recreated: maker.counter(&catalogue::GROUPS_RECREATED, &[name]),
            leader: maker.gauge(&catalogue::LEADER, &[name]),
            jobs: STATES.map(|state| maker.gauge(&catalogue::QUEUE_JOBS, &[name, state])),
            oldest_waiting: maker.gauge(&catalogue::OLDEST_WAITING, &[name]),
            promoted: maker.counter(&catalogue::PROMOTED, &[name]),
            cron_ticks: maker.counter(&catalogue::CRON_TICKS, &[name]),
            cron_skipped: maker.counter(&catalogue::CRON_SKIPPED, &[name]),
            lag: maker.gauge(&catalogue::LAG, &[name]),
            lag_max_us: AtomicU64::new(0),
            types: own.iter().map(|job_type| (job_type.clone(), series(job_type.as_str()))).collect(),
            unknown: series(UNKNOWN),
            other: (!rest.is_empty()).then(|| series(OTHER)),
            known: rest.to_vec(),
        }
    }

    /// The series of a type.
    pub(super) fn of(&self, job_type: Option<&JobType>) -> &TypeSeries {
        let Some(job_type) = job_type else { return &self.unknown };
        let own = self.types.get(job_type);
        let other = || self.other.as_ref().filter(|_| self.known.contains(job_type));
        own.or_else(other).unwrap_or(&self.unknown)
    }

    /// Notes by how much a job was late.
    pub(super) fn late(&self, late: Duration) {
        let us = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
        self.lag_max_us.fetch_max(us, Ordering::Relaxed);
    }

    /// Notes whether this process does the chores. Who does not, knows nothing of the queue's length.
    pub(super) fn lead(&self, leading: bool) {
        self.leader.set(f64::from(u8::from(leading)));
        if !leading {
            self.long([0; STATES.len()], Duration::ZERO);
        }
    }

    /// Notes how long the queue is: its jobs in the order of [`STATES`].
    pub(super) fn long(&self, jobs: [u64; STATES.len()], oldest_waiting: Duration) {
        for (gauge, jobs) in self.jobs.iter().zip(jobs) {
            gauge.set(jobs as f64);
        }
        self.oldest_waiting.set(oldest_waiting.as_secs_f64());
    }

    /// Publishes the greatest lag since the last time.
    pub(super) fn tick(&self) {
        let us = self.lag_max_us.swap(0, Ordering::Relaxed);
        self.lag.set(Duration::from_micros(us).as_secs_f64());
    }
}

impl TypeSeries {
    fn new(maker: &Maker<'_>, queue: &str, job_type: &str) -> Self {
        Self {
            started: maker.counter(&catalogue::STARTED, &[queue, job_type]),
            duration: maker.histogram(&catalogue::DURATION, &[queue, job_type]),
            wait: maker.histogram(&catalogue::WAITED, &[queue, job_type]),
            finished: OUTCOMES
                .map(|outcome| maker.counter(&catalogue::FINISHED, &[queue, job_type, outcome])),
            failures: FAILURES
                .map(|kind| maker.counter(&catalogue::FAILURES, &[queue, job_type, kind.as_str()])),
        }
    }

    /// The counter of attempts that ended so.
    pub(super) fn finished(&self, ending: Ending) -> &Counter {
        let outcome = ending.as_str();
        let at = OUTCOMES.iter().position(|known| *known == outcome);
        &self.finished[at.unwrap_or(0)]
    }

    /// The counter of handlers that failed so.
    pub(super) fn failure(&self, kind: FailureKind) -> &Counter {
        &self.failures[match kind {
            FailureKind::Error => 0,
            FailureKind::Timeout => 1,
            FailureKind::Panic => 2,
        }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::DeadReason;

    #[test]
    fn every_ending_has_an_outcome() {
        let plain =
            [Ending::Succeeded, Ending::Retried, Ending::Snoozed, Ending::Interrupted, Ending::Cancelled];
        let endings = plain.into_iter().chain(DeadReason::ALL.map(Ending::Dead));
        assert!(endings.into_iter().all(|ending| OUTCOMES.contains(&ending.as_str())));
    }

    #[test]
    fn every_kind_of_failure_has_its_place() {
        for (at, kind) in FAILURES.iter().enumerate() {
            let place = match kind {
                FailureKind::Error => 0,
                FailureKind::Timeout => 1,
                FailureKind::Panic => 2,
            };
            assert_eq!(at, place);
        }
    }
}
