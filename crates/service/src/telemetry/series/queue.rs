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
use crate::telemetry::unix_time::unix_seconds;
use streamfleet::event::QueueEvent;

/// The series of one queue.
pub(in super::super) struct QueueSeries {
    running: Gauge,
    oldest_running: Gauge,
    limited: Gauge,
    last_poll: Gauge,
    lease: Gauge,
    timeout: Gauge,
    reclaimed: Counter,
    orphans: Counter,
    leases_lost: Counter,
    fenced: Counter,
    granted: Counter,
    refused: Counter,
    parked: Counter,
    sorted: Counter,
    let_out: Counter,
    set_aside: Counter,
    served: Gauge,
    clock_set_back: Counter,
    bodies_lost: Counter,
    groups_recreated: Counter,
    promoted: Counter,
    cron_ticks: Counter,
    cron_skipped: Counter,
    letters: LetterSeries,
    state: StateSeries,
    leader: Gauge,
    lag: Gauge,
    lag_max_us: AtomicU64,
    latency_objective: Duration,
    types: Types,
}

impl QueueSeries {
    /// Records one event of the queue.
    pub(in super::super) fn record(&self, event: QueueEvent<'_>) {
        match event {
            QueueEvent::Joined { lease, longest_timeout } => {
                self.lease.set(lease.as_secs_f64());
                self.timeout.set(longest_timeout.as_secs_f64());
            }
            QueueEvent::LongestRun { elapsed } => self.oldest_running.set(elapsed.as_secs_f64()),
            QueueEvent::Limited { waiting } => self.limited.set(waiting as f64),
            QueueEvent::SetAside { .. } => self.set_aside.increment(1),
            QueueEvent::Served => self.served.set(1.0),
            QueueEvent::Unserved { why: _ } => self.served.set(0.0),
            QueueEvent::ClockSetBack { by: _ } => self.clock_set_back.increment(1),
            QueueEvent::Fenced => self.fenced.increment(1),
            QueueEvent::Parked { .. } => self.parked.increment(1),
            QueueEvent::Admitted { granted, refused } => {
                self.granted.increment(granted);
                self.refused.increment(refused);
            }
            QueueEvent::MovedToWaitlists { jobs } => self.sorted.increment(jobs),
            QueueEvent::LeftWaitlists { jobs } => self.let_out.increment(jobs),
            QueueEvent::LeaseLost => self.leases_lost.increment(1),
            QueueEvent::Claimed { jobs } => self.reclaimed.increment(jobs),
            QueueEvent::OrphansReclaimed { count } => self.orphans.increment(count),
            QueueEvent::BodiesLost { entries } => self.bodies_lost.increment(entries),
            QueueEvent::Promoted { jobs, late } => {
                self.promoted.increment(jobs);
                self.late(late);
            }
            QueueEvent::PromoterPolled => self.state.promoter_polled(),
            QueueEvent::Evicted { .. }
            | QueueEvent::Archived { .. }
            | QueueEvent::ArchiveFailed { .. }
            | QueueEvent::Campaigns { .. }
            | QueueEvent::CampaignStopped { .. } => self.letters.record(event),
            QueueEvent::UnservedTypes { types, jobs } => self.state.unserved(types, jobs),
            QueueEvent::CronTicked { jobs, entry: _, late: _ } => self.cron_ticks.increment(jobs as u64),
            QueueEvent::CronSkipped { ticks, entry: _ } => self.cron_skipped.increment(ticks as u64),
            QueueEvent::GroupRecreated => self.groups_recreated.increment(1),
            QueueEvent::Leading { leading } => self.lead(leading),
            QueueEvent::Read { entries: _ } => self.last_poll.set(unix_seconds()),
            QueueEvent::Surveyed { snapshot, cron_overdue, took } => {
                self.state.set(snapshot, cron_overdue, took)
            }
            // The survey reports the length and more, a type that no worker knows is no label, and a person watches a task.
            QueueEvent::QueueLength { .. }
            | QueueEvent::TypeUnserved { .. }
            | QueueEvent::TaskFailed { .. } => {}
        }
    }

    /// Creates the series of a queue, for these types as far as `left` allows.
    pub(in super::super) fn new(
        maker: &Maker<'_>,
        queue: &QueueName,
        objectives: Objectives,
        types: &[JobType],
        left: &mut usize,
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
            types: Types::new(maker, name, types, left),
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
    fn late(&self, late: Duration) {
        let us = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
        self.lag_max_us.fetch_max(us, Ordering::Relaxed);
    }

    /// Records whether this process leads the queue. Only the leader knows the queue's state.
    fn lead(&self, leading: bool) {
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
