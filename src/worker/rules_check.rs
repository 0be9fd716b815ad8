//! When the rules of a queue's gates were last checked, and how often they have changed: what an attempt needs that waits in a pool
//! after Redis has let it begin.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// An attempt that waits begins only if the rules were checked within this time. While a worker holds something, its heartbeat
/// checks them more often.
const KNOWN_FOR: Duration = Duration::from_secs(1);

/// What is known about the rules of one queue.
#[derive(Debug)]
pub(crate) struct RulesCheck {
    created: Instant,
    /// When they were last checked, in ms since `created`; 0 for never.
    checked: AtomicU64,
    /// How often other ones were read.
    changes: AtomicU64,
}

impl RulesCheck {
    pub(super) fn new() -> Self {
        Self { created: Instant::now(), checked: AtomicU64::new(0), changes: AtomicU64::new(0) }
    }

    /// Notes that the rules were checked just now.
    pub(super) fn note_checked(&self) {
        let now = u64::try_from(self.created.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.checked.store(now.max(1), Ordering::Release);
    }

    /// Notes that other rules were read.
    pub(super) fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Returns how often the rules have changed.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Returns true if they were checked within this time.
    pub(super) fn is_within(&self, age: Duration, now: Instant) -> bool {
        let checked = self.checked.load(Ordering::Acquire);
        let since = now.saturating_duration_since(self.created);
        checked > 0 && since.saturating_sub(Duration::from_millis(checked)) < age
    }

    /// Returns true if an attempt that was asked about after this many changes may begin as far as the rules go.
    pub(super) fn still_holds(&self, changes: u64, now: Instant) -> bool {
        self.changes() == changes && self.is_within(KNOWN_FOR, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_holds_until_the_rules_change_or_nobody_has_checked_them() {
        let check = RulesCheck::new();
        let now = Instant::now();
        assert!(!check.still_holds(0, now), "they were never checked");
        check.note_checked();
        assert!(check.still_holds(0, now) && !check.still_holds(0, now + 2 * KNOWN_FOR));
        check.note_change();
        assert!(!check.still_holds(0, now) && check.still_holds(1, now));
    }
}
