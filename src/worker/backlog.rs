//! Deliveries that wait in this process because as many of their type or key run as may. They hold no slot and no room. The
//! backlog is small, and nothing stays in it for long: another worker may have room for it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::delivery::Delivery;
use super::limits::{Bound, Limits, Place};
use crate::job::Lane;

/// The most deliveries that wait, of one lane and those before it.
const MOST: usize = 100;

/// Nothing more waits once those of its lane, and of those before it, have this many bytes together.
const MOST_BYTES: usize = 16 << 20;

/// In one of this many rounds, the oldest starts first whatever its lane is, so that no lane starves.
const ROUNDS: usize = 4;

/// How long a delivery waits.
const LONGEST: Duration = Duration::from_secs(1);

/// The deliveries of one queue that wait for others of their type or key.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// The oldest first.
    waiting: VecDeque<Waiting>,
    /// How often some of them started.
    rounds: usize,
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

    /// Takes a delivery, unless there is too much already: for each of its gates, as many wait as may run. Only those of its
    /// lane and of the lanes before it count.
    pub(super) fn offer(
        &mut self,
        delivery: Arc<Delivery>,
        place: Place,
        now: Instant,
    ) -> Result<(), Arc<Delivery>> {
        let lane = delivery.job.lane;
        let before = || self.waiting.iter().filter(|other| other.delivery.job.lane <= lane);
        let crowded = |bound: Bound| before().filter(|other| other.place.passes(bound)).count() >= bound.most;
        let bytes: usize = before().map(|other| other.delivery.envelope.size()).sum();
        if before().count() >= MOST || bytes >= MOST_BYTES || place.bounds().any(crowded) {
            return Err(delivery);
        }
        self.keep(delivery, place, now);
        Ok(())
    }

    /// Takes a delivery, whether or not there is too much already.
    pub(super) fn keep(&mut self, delivery: Arc<Delivery>, place: Place, since: Instant) {
        self.waiting.push_back(Waiting { delivery, place, since });
    }

    /// Takes out those that may start now, in the order of their lanes, and within a lane in the order in which they came. Each
    /// takes its place.
    pub(super) fn startable(&mut self, limits: &Limits, now: Instant) -> Vec<Arc<Delivery>> {
        let lanes = self.waiting.iter().map(|waiting| waiting.delivery.job.lane);
        let mut order: Vec<(Lane, usize)> = lanes.zip(0..).collect();
        if self.rounds % ROUNDS < ROUNDS - 1 {
            order.sort_unstable();
        }
        order.retain(|(_, nth)| limits.enter(self.waiting[*nth].place, now));
        if order.is_empty() {
            return Vec::new();
        }
        self.rounds = self.rounds.wrapping_add(1);
        let startable = order.iter().map(|(_, nth)| Arc::clone(&self.waiting[*nth].delivery)).collect();
        let mut places = 0..;
        self.waiting.retain(|_| {
            let place = places.next();
            order.iter().all(|(_, nth)| Some(*nth) != place)
        });
        startable
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
        taken
    }
}

fn deliveries(waiting: Vec<Waiting>) -> Vec<Arc<Delivery>> {
    waiting.into_iter().map(|waiting| waiting.delivery).collect()
}
