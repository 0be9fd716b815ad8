//! The series of one queue.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{Counter, Gauge};

use super::Maker;
use super::job_type::{TypeSeries, Types};
use super::letters::LetterSeries;
use super::state::StateSeries;
use crate::job::{JobType, QueueName};
use crate::telemetry::catalogue;
use crate::telemetry::objectives::Objectives;
use streamfleet::event::Event;

/// The series of one queue.
pub(in super::super) struct QueueSeries {
    pub(in super::super) running: Gauge,
    pub(in super::super) oldest_running: Gauge,
    pub(in super::super) limited: Gauge,
    pub(in super::super) last_poll: Gauge,
    pub(in super::super) lease: Gauge,
    pub(in super::super) timeout: Gauge,
    pub(in super::super) reclaimed: Counter,
    pub(in super::super) orphans: Counter,
    pub(in super::super) leases_lost: Counter,
    pub(in super::super) fenced: Counter,
    granted: Counter,
    refused: Counter,
    parked: Counter,
    sorted: Counter,
    let_out: Counter,
    pub(in super::super) set_aside: Counter,
    pub(in super::super) served: Gauge,
    pub(in super::super) clock_set_back: Counter,
    pub(in super::super) bodies_lost: Counter,
    pub(in super::super) groups_recreated: Counter,
    pub(in super::super) promoted: Counter,
    pub(in super::super) cron_ticks: Counter,
    pub(in super::super) cron_skipped: Counter,
    pub(in super::super) letters: LetterSeries,
    pub(in super::super) state: StateSeries,
    leader: Gauge,
    lag: Gauge,
    lag_max_us: AtomicU64,
    latency_objective: Duration,
    types: Types,
}

impl QueueSeries {
    /// Records what happened to jobs before they started, at a gate or in a shared queue.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the caller passes only these events")]
    pub(in super::super) fn gated(&self, event: &Event<'_>) {
        match *event {
            Event::Parked { .. } => self.parked.increment(1),
            Event::Admitted { granted, refused, .. } => {
                self.granted.increment(granted);
                self.refused.increment(refused);
            }
            Event::Sorted { jobs, .. } => self.sorted.increment(jobs),
            Event::LetOut { jobs, .. } => self.let_out.increment(jobs),
            _ => {}
        }
    }

    /// Creates the series of a queue, for these types as far as `room` allows.
    pub(in super::super) fn new(
        maker: &Maker<'_>,
        queue: &QueueName,
        objectives: Objectives,
        types: &[JobType],
        room: &mut usize,
    ) -> Self {
        let name = queue.as_str();
        let gauge = |descriptor| maker.gauge(descriptor, &[name]);
        let counter = |descriptor| maker.counter(descriptor, &[name]);
        gauge(&catalogue::LATENCY_OBJECTIVE).set(objectives.latency.as_secs_f64());
        gauge(&catalogue::DEAD_OBJECTIVE).set(objectives.dead_ratio);
        Self {
            running: gauge(&catalogue::RUNNING),
            oldest_running: gauge(&catalogue::OLDEST_RUNNING),
            limited: gauge(&catalogue::LIMITED),
            last_poll: gauge(&catalogue::LAST_POLL),
            lease: gauge(&catalogue::LEASE),
            timeout: gauge(&catalogue::TIMEOUT),
            reclaimed: maker.counter(&catalogue::RECLAIMED, &[name, "idle"]),
            orphans: counter(&catalogue::ORPHANS_RECLAIMED),
            leases_lost: counter(&catalogue::LEASES_LOST),
            fenced: counter(&catalogue::FENCED),
            granted: counter(&catalogue::GRANTED),
            refused: counter(&catalogue::REFUSED),
            parked: counter(&catalogue::PARKED),
            sorted: counter(&catalogue::SORTED),
            let_out: counter(&catalogue::LET_OUT),
            set_aside: counter(&catalogue::SET_ASIDE),
            served: gauge(&catalogue::SERVED),
            clock_set_back: counter(&catalogue::CLOCK_SET_BACK),
            bodies_lost: counter(&catalogue::BODIES_LOST),
            groups_recreated: counter(&catalogue::GROUPS_RECREATED),
            promoted: counter(&catalogue::PROMOTED),
            cron_ticks: counter(&catalogue::CRON_TICKS),
            cron_skipped: counter(&catalogue::CRON_SKIPPED),
            letters: LetterSeries::new(maker, name),
            state: StateSeries::new(maker, name),
            leader: gauge(&catalogue::LEADER),
            lag: gauge(&catalogue::LAG),
            lag_max_us: AtomicU64::new(0),
            latency_objective: objectives.latency,
            types: Types::new(maker, name, types, room),
        }
    }

    /// Returns the series of a type; `None` stands for entries that are not a job.
    pub(in super::super) fn of(&self, job_type: Option<&JobType>) -> &TypeSeries {
        self.types.of(job_type)
    }

    /// Counts an attempt that starts.
    pub(in super::super) fn start(&self, job_type: &JobType, wait: Duration) {
        self.of(Some(job_type)).start(wait, self.latency_objective);
        self.running.increment(1.0);
    }

    /// Counts an attempt whose handler has run.
    pub(in super::super) fn ran(&self, job_type: &JobType, elapsed: Duration) {
        self.of(Some(job_type)).duration.record(elapsed.as_secs_f64());
        self.running.decrement(1.0);
    }

    /// Records how late a job was promoted.
    pub(in super::super) fn late(&self, late: Duration) {
        let us = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
        self.lag_max_us.fetch_max(us, Ordering::Relaxed);
    }

    /// Records whether this process leads the queue. Only the leader knows the queue's state.
    pub(in super::super) fn lead(&self, leading: bool) {
        self.leader.set(f64::from(u8::from(leading)));
        if !leading {
            self.state.forget();
            self.letters.forget();
        }
    }

    /// Publishes the largest lag since the last call.
    pub(in super::super) fn tick(&self) {
        let us = self.lag_max_us.swap(0, Ordering::Relaxed);
        self.lag.set(Duration::from_micros(us).as_secs_f64());
    }
}
