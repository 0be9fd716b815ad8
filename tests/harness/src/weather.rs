//! The faults of a run as the checker sees them: which worker was hit, and from when until when.

use std::collections::HashMap;
use std::time::Duration;

/// A fault that happened. Times are [`monotonic_ns`](super::clock::monotonic_ns).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub cause: Cause,
    /// The worker that was hit; `None` for all of them.
    pub pid: Option<u32>,
    pub from: u64,
    pub until: u64,
}

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Kill,
    Freeze,
    /// The worker was asked to stop.
    Stop,
    /// Its network was cut, delayed or forged.
    Network,
    /// Redis was down, frozen or refused to work.
    Redis,
}

/// All faults of a run, by worker.
#[derive(Default)]
pub struct Weather {
    by_pid: HashMap<u32, Vec<Event>>,
    of_all: Vec<Event>,
}

impl Weather {
    pub fn new(events: &[Event]) -> Self {
        let mut weather = Self::default();
        for event in events.iter().cloned() {
            match event.pid {
                Some(pid) => weather.by_pid.entry(pid).or_default().push(event),
                None => weather.of_all.push(event),
            }
        }
        weather
    }

    /// Returns the faults that can have hit this worker.
    pub(super) fn of(&self, pid: u32) -> impl Iterator<Item = &Event> {
        self.by_pid.get(&pid).into_iter().flatten().chain(&self.of_all)
    }

    /// Whether a fault hit the worker at some point between the two times.
    pub(super) fn touches(&self, pid: u32, from: u64, until: u64) -> bool {
        self.of(pid).any(|event| event.from <= until && event.until >= from)
    }

    pub(super) fn kills(&self) -> impl Iterator<Item = (u32, &Event)> {
        let all = self.by_pid.iter().flat_map(|(pid, events)| events.iter().map(|event| (*pid, event)));
        all.filter(|(_pid, event)| event.cause == Cause::Kill)
    }

    /// Returns how many other faults hit single workers between the end of this one and this moment.
    pub(super) fn others_within(&self, event: &Event, until: u64) -> u32 {
        let others = self.by_pid.values().flatten().filter(|other| *other != event);
        let count = others.filter(|other| other.from <= until && other.until >= event.until).count();
        u32::try_from(count).expect("a run has few faults")
    }

    /// Returns how long, at most, all workers were hit between the two times.
    pub(super) fn common_within(&self, from: u64, until: u64) -> Duration {
        let overlap = |event: &Event| event.until.min(until).saturating_sub(event.from.max(from));
        Duration::from_nanos(self.of_all.iter().map(overlap).sum())
    }
}
