//! Deliveries that wait in this process because as many of their type or key run as may. They hold no slot and no room. The
//! backlog is small, and nothing stays in it for long: another worker may have room for it.
//!
//! More of them wait for a gate that lets them pass in a moment, such as that of programs with short jobs: to put them off would
//! cost more than to run them. Then the reader pauses, but only for so long that other jobs hardly notice.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::delivery::Delivery;
use super::limits::{Bound, Limits, Place};
use crate::job::Lane;

/// The most deliveries that wait, of one lane and those before it.
const MOST: usize = 100;

/// The most deliveries that wait for gates that let them pass in a moment.
const MOST_QUICK: usize = 1000;

/// The reader waits once this many wait for such a gate: what one read brings has room too.
const MOST_PRESSING: usize = 500;

/// How long the reader waits for the backlog, from when it presses until all that waited have started.
const PATIENCE: Duration = Duration::from_secs(1);

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
    /// The gate for which more wait than it lets pass in a moment, and how many that is.
    pressing: Option<(Bound, usize)>,
    /// Since when more have waited for one gate or another.
    pressed_since: Option<Instant>,
}

#[derive(Debug)]
struct Waiting {
    delivery: Arc<Delivery>,
    place: Place,
    since: Instant,
    /// Whether it waits for a gate that lets many pass in a moment.
    is_quick: bool,
}

impl Backlog {
    /// Returns how many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns true if nothing waits, neither a delivery nor the reader.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.pressing.is_none()
    }

    /// Takes a delivery, unless there is too much already: for each of its gates, as many wait as may run, or as pass in a moment.
    /// Only those of its lane and of the lanes before it count.
    pub(super) fn offer(
        &mut self,
        delivery: Arc<Delivery>,
        place: Place,
        (limits, now): (&Limits, Instant),
    ) -> Result<(), Arc<Delivery>> {
        let lane = delivery.job.lane;
        let before = || self.waiting.iter().filter(|other| other.delivery.job.lane <= lane);
        let at = |bound: Bound| before().filter(|other| other.place.passes(bound)).count();
        let alike = |is_quick: bool| before().filter(|other| other.is_quick == is_quick).count();
        let bytes: usize = before().map(|other| other.delivery.envelope.size()).sum();
        let quick = limits.quick_gate(place).map(|(bound, pass)| (bound, pass.min(MOST_PRESSING)));
        let (is_full, pressing) = match quick {
            // What one read has brought may wait, since the reader then pauses.
            Some((bound, pass)) => {
                let (waiting, is_patient) = (at(bound) + 1, self.patient_until(now) > now);
                let is_full = alike(true) >= MOST_QUICK || (waiting > pass && !is_patient);
                (is_full, waiting >= pass)
            }
            None => (alike(false) >= MOST || place.bounds().any(|bound| at(bound) >= bound.most), false),
        };
        if pressing {
            self.pressing = quick;
            self.pressed_since.get_or_insert(now);
        }
        if is_full || bytes >= MOST_BYTES {
            return Err(delivery);
        }
        self.waiting.push_back(Waiting { delivery, place, since: now, is_quick: quick.is_some() });
        Ok(())
    }

    /// Takes a delivery, whether or not there is too much already.
    pub(super) fn keep(&mut self, delivery: Arc<Delivery>, place: Place, since: Instant) {
        self.waiting.push_back(Waiting { delivery, place, since, is_quick: false });
    }

    /// Returns until when the reader waits for what presses; `None` if it does not wait.
    pub(super) fn presses_until(&self, now: Instant) -> Option<Instant> {
        let until = self.patient_until(now);
        (self.pressing.is_some() && until > now).then_some(until)
    }

    /// Returns until when what waits for a gate that lets many pass in a moment is not put off.
    fn patient_until(&self, now: Instant) -> Instant {
        self.pressed_since.unwrap_or(now) + PATIENCE
    }

    /// Notes that some have left.
    fn relieve(&mut self) {
        if let Some((bound, pass)) = self.pressing {
            let left = self.waiting.iter().filter(|waiting| waiting.place.passes(bound)).count();
            self.pressing = self.pressing.filter(|_| left > pass / 2);
        }
    }

    /// Takes out those that may start now, in the order of their lanes, and within a lane in the order in which they came. Each
    /// takes its place.
    pub(super) fn startable(&mut self, limits: &Limits, now: Instant) -> Vec<Arc<Delivery>> {
        let lanes = self.waiting.iter().map(|waiting| waiting.delivery.job.lane);
        let mut order: Vec<(Lane, usize)> = lanes.zip(0..).collect();
        if self.rounds % ROUNDS < ROUNDS - 1 {
            order.sort_unstable();
        }
        let waiting = order.into_iter().map(|(_, nth)| (nth, self.waiting[nth].place));
        let starting = limits.enter_each(waiting, now);
        if starting.is_empty() {
            return Vec::new();
        }
        self.rounds = self.rounds.wrapping_add(1);
        let startable = starting.iter().map(|nth| Arc::clone(&self.waiting[*nth].delivery)).collect();
        let mut from_behind = starting;
        from_behind.sort_unstable_by(|one, other| other.cmp(one));
        for nth in from_behind {
            self.waiting.remove(nth);
        }
        if self.waiting.is_empty() {
            self.pressed_since = None;
        }
        self.relieve();
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
        self.relieve();
        taken
    }
}

fn deliveries(waiting: Vec<Waiting>) -> Vec<Arc<Delivery>> {
    waiting.into_iter().map(|waiting| waiting.delivery).collect()
}
