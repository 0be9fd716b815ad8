//! An estimate of the server's clock: what Redis last reported, carried on by the monotonic clock. For metrics only: no
//! decision depends on it.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use crate::job::Timestamp;

/// An estimate of the server's clock.
#[derive(Debug)]
pub(crate) struct ServerClock {
    /// Milliseconds from our epoch to the server's; `i64::MIN` while unknown.
    ahead_ms: AtomicI64,
}

static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Default for ServerClock {
    fn default() -> Self {
        LazyLock::force(&EPOCH);
        Self { ahead_ms: AtomicI64::new(i64::MIN) }
    }
}

impl ServerClock {
    /// Notes what the server's clock shows now.
    pub(crate) fn update(&self, now: Timestamp) {
        self.ahead_ms.store(now.as_ms().cast_signed() - ms_since_epoch(Instant::now()), Ordering::Relaxed);
    }

    /// Returns how long before `now` the server's clock showed `ms`; zero while that is unknown.
    pub(crate) fn since(&self, ms: u64, now: Instant) -> Duration {
        match self.ahead_ms.load(Ordering::Relaxed) {
            i64::MIN => Duration::ZERO,
            ahead => Duration::from_millis(
                u64::try_from(ms_since_epoch(now) + ahead - ms.cast_signed()).unwrap_or(0),
            ),
        }
    }
}

fn ms_since_epoch(at: Instant) -> i64 {
    i64::try_from(at.saturating_duration_since(*EPOCH).as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_late_while_the_servers_clock_is_unknown_or_behind() {
        let clock = ServerClock::default();
        assert_eq!(clock.since(5, Instant::now()), Duration::ZERO);
        clock.update(Timestamp::from_ms(1_000_000).unwrap());
        assert_eq!(clock.since(2_000_000, Instant::now()), Duration::ZERO);
        assert!(clock.since(999_000, Instant::now()) >= Duration::from_secs(1));
    }
}
