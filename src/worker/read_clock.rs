//! Since when a read may have been answered. If this process was frozen, the reply to a waiting read may have gone
//! unnoticed for long, and others may have claimed its entries by then.

use std::time::{Duration, Instant};

/// Checks the clock while a read is in progress.
#[derive(Debug)]
pub(super) struct ReadClock {
    lease: Duration,
    /// The last time at which the read had certainly not been answered. The leases of its entries count from then on.
    pub(super) unanswered: Instant,
    observed: Instant,
    /// Until when the runtime may still discover what arrived while it was frozen: its threads return one after another.
    catching_up: Option<Instant>,
}

impl ReadClock {
    /// Starts with a read that is sent now.
    pub(super) fn new(asked: Instant, lease: Duration) -> Self {
        Self { lease, unanswered: asked, observed: asked, catching_up: None }
    }

    /// Returns how often to check.
    pub(super) fn pause(&self) -> Duration {
        self.lease / 24
    }

    /// Notes that the read has not been answered, as far as is known at this moment.
    pub(super) fn observe(&mut self, now: Instant) {
        if now - self.observed > self.lease / 8 {
            self.catching_up = Some(now + self.lease / 2);
        }
        if self.catching_up.is_none_or(|until| now >= until) {
            self.catching_up = None;
            // Not the current time: the answer may have arrived without having reached us.
            self.unanswered = self.observed;
        }
        self.observed = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_millis(2_400);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_waiting_read_knows_roughly_when_it_got_entries() {
        let asked = Instant::now();
        let mut clock = ReadClock::new(asked, LEASE);
        assert_eq!(clock.unanswered, asked);
        for look in 1..=50 {
            clock.observe(asked + ms(100 * look));
            assert_eq!(clock.unanswered, asked + ms(100 * (look - 1)));
        }
    }

    #[test]
    fn after_a_freeze_answers_from_before_count_for_half_a_lease() {
        let asked = Instant::now();
        let mut clock = ReadClock::new(asked, LEASE);
        clock.observe(asked + ms(100));
        for look in 0..=12 {
            clock.observe(asked + ms(5_000 + 100 * look));
            let held = look < 12;
            assert_eq!(clock.unanswered, asked + if held { ms(0) } else { ms(6_100) }, "{look}");
        }
        clock.observe(asked + ms(6_300));
        assert_eq!(clock.unanswered, asked + ms(6_200));
    }
}
