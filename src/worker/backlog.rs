//! Deliveries that wait in this process because as many of their type or key run as may. They hold no slot and no room. The
//! backlog is small, and nothing stays in it for long: another worker may have room for it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::delivery::Delivery;
use super::limits::{Limits, Place};

/// The most deliveries that wait.
const MOST: usize = 100;

/// Nothing more waits once those that do have this many bytes together.
const MOST_BYTES: usize = 16 << 20;

/// How long a delivery waits.
const LONGEST: Duration = Duration::from_secs(1);

/// The deliveries of one queue that wait for others of their type or key.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

#[derive(Debug)]
struct Waiting {
    delivery: Arc<Delivery>,
    place: Place,
    since: Instant,
}

impl Backlog {
    /// Returns how many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Takes a delivery, unless there is too much already: for each of its gates, as many wait as may run.
    pub(super) fn offer(
        &mut self,
        delivery: Arc<Delivery>,
        place: Place,
        now: Instant,
    ) -> Result<(), Arc<Delivery>> {
        let crowded = |waiting: &VecDeque<Waiting>| {
            place
                .bounds()
                .any(|bound| waiting.iter().filter(|other| other.place.passes(bound)).count() >= bound.most)
        };
        if self.waiting.len() >= MOST || self.bytes >= MOST_BYTES || crowded(&self.waiting) {
            return Err(delivery);
        }
        self.keep(delivery, place, now);
        Ok(())
    }

    /// Takes a delivery, whether or not there is too much already.
    pub(super) fn keep(&mut self, delivery: Arc<Delivery>, place: Place, since: Instant) {
        self.bytes += delivery.envelope.size();
        self.waiting.push_back(Waiting { delivery, place, since });
    }

    /// Takes out those that may start now, in the order in which they came. Each takes its place.
    pub(super) fn startable(&mut self, limits: &Limits, now: Instant) -> Vec<Arc<Delivery>> {
        deliveries(self.take(|waiting| limits.enter(waiting.place, now)))
    }

    /// Takes out those that match.
    pub(super) fn withdraw(&mut self, matches: impl Fn(&Delivery) -> bool) -> Vec<Arc<Delivery>> {
        deliveries(self.take(|waiting| matches(&waiting.delivery)))
    }

    /// Takes out those that have waited for too long, with the gates that they wait for.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<(Arc<Delivery>, Place)> {
        let taken = self.take(|waiting| now.saturating_duration_since(waiting.since) >= LONGEST);
        taken.into_iter().map(|waiting| (waiting.delivery, waiting.place)).collect()
    }

    fn take(&mut self, mut is_wanted: impl FnMut(&Waiting) -> bool) -> Vec<Waiting> {
        let all = std::mem::take(&mut self.waiting);
        let (taken, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|waiting| is_wanted(waiting));
        self.waiting = VecDeque::from(others);
        self.bytes -= taken.iter().map(|waiting| waiting.delivery.envelope.size()).sum::<usize>();
        taken
    }
}

fn deliveries(waiting: Vec<Waiting>) -> Vec<Arc<Delivery>> {
    waiting.into_iter().map(|waiting| waiting.delivery).collect()
}
