//! The only notion of time in the domain: milliseconds since the Unix epoch, always by the Redis server's clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An instant by the server's clock. Workers never compare it with their own clocks. The default is the Unix epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "u64", into = "u64")]
pub struct Timestamp(u64);

/// Reads what is stored in milliseconds; a mistake is [`Timestamp::MAX`].
impl From<u64> for Timestamp {
    fn from(ms: u64) -> Self {
        Self(ms.min(Self::MAX.0))
    }
}

impl From<Timestamp> for u64 {
    fn from(time: Timestamp) -> Self {
        time.0
    }
}

impl Timestamp {
    /// The last millisecond of the year 9999. Later instants are treated as mistakes.
    pub const MAX: Self = Self(253_402_300_799_999);

    /// Returns the instant `ms` milliseconds after the Unix epoch; `None` beyond [`Timestamp::MAX`].
    pub fn from_ms(ms: u64) -> Option<Self> {
        (ms <= Self::MAX.0).then_some(Self(ms))
    }

    /// Returns the milliseconds since the Unix epoch.
    pub fn as_ms(self) -> u64 {
        self.0
    }

    /// Returns the instant `delay` later, at most [`Timestamp::MAX`].
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        let ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(ms).min(Self::MAX.0))
    }

    /// Returns the instant that was this long before, at least 1970.
    #[doc(hidden)]
    #[must_use]
    pub fn before(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Returns how long after `earlier` this instant is; zero if it is not later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_beyond_the_year_9999_are_refused_and_sums_stop_there() {
        assert!(Timestamp::from_ms(u64::MAX).is_none());
        let late = Timestamp::MAX.after(Duration::from_secs(1));
        assert_eq!(late, Timestamp::MAX);
    }

    #[test]
    fn a_difference_is_never_negative() {
        let (early, late) = (Timestamp::from_ms(5).unwrap(), Timestamp::from_ms(9).unwrap());
        assert_eq!(late.since(early), Duration::from_millis(4));
        assert_eq!(early.since(late), Duration::ZERO);
    }
}
