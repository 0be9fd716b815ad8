//! The series of a queue's state, which only its leader reports.

use std::sync::Mutex;
use std::time::Duration;

use metrics::{Counter, Gauge};
use streamfleet_engine::mutex::lock;

use super::Maker;
use crate::broker::QueueSnapshot;
use crate::job::Lane;
use crate::telemetry::catalogue::{self, CONSUMERS, STATES};
use crate::telemetry::unix_time::unix_seconds;

/// The series of a queue's state.
pub(in super::super) struct StateSeries {
    jobs: [Gauge; STATES.len()],
    consumers: [Gauge; CONSUMERS.len()],
    backlog: Gauge,
    in_rooms: Gauge,
    in_fair_rooms: Gauge,
    gates_closed: Gauge,
    breakers_open: Gauge,
    paused: Gauge,
    latency: Gauge,
    overdue: Gauge,
    oldest_pending: Gauge,
    oldest_dead: Gauge,
    cron_overdue: Gauge,
    unserved_types: Gauge,
    unserved_jobs: Gauge,
    collected: Gauge,
    took: Gauge,
    last_tick: Gauge,
    added: [Counter; Lane::ALL.len()],
    /// The last values read, while this process leads.
    added_before: Mutex<Option<[u64; Lane::ALL.len()]>>,
}

impl StateSeries {
    pub(super) fn new(maker: &Maker<'_>, queue: &str) -> Self {
        let gauge = |descriptor| maker.gauge(descriptor, &[queue]);
        Self {
            jobs: STATES.map(|state| maker.gauge(&catalogue::QUEUE_JOBS, &[queue, state])),
            consumers: CONSUMERS.map(|state| maker.gauge(&catalogue::QUEUE_CONSUMERS, &[queue, state])),
            backlog: gauge(&catalogue::BACKLOG),
            in_rooms: gauge(&catalogue::IN_ROOMS),
            in_fair_rooms: gauge(&catalogue::IN_FAIR_ROOMS),
            gates_closed: gauge(&catalogue::GATES_CLOSED),
            breakers_open: gauge(&catalogue::BREAKERS_OPEN),
            paused: gauge(&catalogue::PAUSED),
            latency: gauge(&catalogue::LATENCY),
            overdue: gauge(&catalogue::OVERDUE),
            oldest_pending: gauge(&catalogue::OLDEST_PENDING),
            oldest_dead: gauge(&catalogue::OLDEST_DEAD),
            cron_overdue: gauge(&catalogue::CRON_OVERDUE),
            unserved_types: gauge(&catalogue::UNSERVED_TYPES),
            unserved_jobs: gauge(&catalogue::UNSERVED_JOBS),
            collected: gauge(&catalogue::COLLECTED),
            took: gauge(&catalogue::COLLECTOR_DURATION),
            last_tick: gauge(&catalogue::LAST_TICK),
            added: Lane::NAMES.map(|lane| maker.counter(&catalogue::ENTRIES_ADDED, &[queue, lane])),
            added_before: Mutex::default(),
        }
    }

    /// Records the result of a survey.
    pub(in super::super) fn set(&self, snapshot: &QueueSnapshot, cron_overdue: Duration, took: Duration) {
        set_all(&self.jobs, [snapshot.waiting(), snapshot.running(), snapshot.delayed, snapshot.dead]);
        let members = snapshot.members.unwrap_or_default();
        set_all(&self.consumers, [members.live, members.stale]);
        self.backlog.set(snapshot.jobs() as f64);
        let figures = [
            (&self.in_rooms, snapshot.in_rooms),
            (&self.in_fair_rooms, snapshot.in_fair_rooms),
            (&self.gates_closed, snapshot.gates_closed),
            (&self.breakers_open, snapshot.breakers_open),
        ];
        for (gauge, count) in figures {
            gauge.set(count as f64);
        }
        self.set_times(snapshot, cron_overdue, took);
        self.collected.set(unix_seconds());
        let added = snapshot.lanes.map(|lane| lane.added.unwrap_or(0));
        let mut before = lock(&self.added_before);
        if let Some(before) = *before {
            for ((counter, before), now) in self.added.iter().zip(before).zip(added) {
                // A stream that was created again counts from 0.
                counter.increment(now.checked_sub(before).unwrap_or(now));
            }
        }
        *before = Some(added);
    }

    fn set_times(&self, snapshot: &QueueSnapshot, cron_overdue: Duration, took: Duration) {
        let times = [
            (&self.latency, snapshot.oldest_waiting().unwrap_or_default()),
            (&self.paused, snapshot.closed_since.map(|since| snapshot.now.since(since)).unwrap_or_default()),
            (&self.overdue, snapshot.overdue()),
            (&self.oldest_pending, snapshot.longest_silence()),
            (&self.oldest_dead, snapshot.oldest_dead_age().unwrap_or_default()),
            (&self.cron_overdue, cron_overdue),
            (&self.took, took),
        ];
        for (gauge, time) in times {
            gauge.set(time.as_secs_f64());
        }
    }

    /// Records that the promoter looked for due jobs.
    pub(in super::super) fn promoter_polled(&self) {
        self.last_tick.set(unix_seconds());
    }

    /// Records how many jobs wait because no live worker knows their types.
    pub(in super::super) fn unserved(&self, types: u64, jobs: u64) {
        self.unserved_types.set(types as f64);
        self.unserved_jobs.set(jobs as f64);
    }

    /// Resets everything to 0: another process is the leader.
    pub(super) fn forget(&self) {
        set_all(&self.jobs, [0; STATES.len()]);
        set_all(&self.consumers, [0; CONSUMERS.len()]);
        self.set_times(&QueueSnapshot::default(), Duration::ZERO, Duration::ZERO);
        self.unserved(0, 0);
        let of_gates = [&self.in_rooms, &self.in_fair_rooms, &self.gates_closed, &self.breakers_open];
        for gauge in of_gates.into_iter().chain([&self.backlog, &self.collected, &self.last_tick]) {
            gauge.set(0.0);
        }
        *lock(&self.added_before) = None;
    }
}

fn set_all(gauges: &[Gauge], counts: impl IntoIterator<Item = u64>) {
    for (gauge, count) in gauges.iter().zip(counts) {
        gauge.set(count as f64);
    }
}
