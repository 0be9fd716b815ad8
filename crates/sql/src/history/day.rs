//! The day on which a life began, which says in which partition its rows are.

use std::fmt;
use std::str::FromStr;

use jiff::ToSpan as _;
use jiff::civil::Date;
use jiff::tz::Offset;
use streamfleet_domain::job::Generation;

/// The first instant that is believed to be one: 2001-09-09. Smaller numbers are not milliseconds since 1970.
const FIRST_MS: u64 = 1_000_000_000_000;

/// The last millisecond of the year 9999.
const LAST_MS: u64 = 253_402_300_799_999;

/// A day, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(Date);

impl Day {
    /// Returns the day of an instant, in milliseconds since 1970. The last day is 9999-12-30, on which all later ones are, too.
    pub fn of_ms(ms: u64) -> Self {
        let instant = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        let instant = instant.unwrap_or(jiff::Timestamp::MAX);
        Self(Offset::UTC.to_datetime(instant).date())
    }

    /// Returns the day of a life, which is a function of what never changes during it. The token of most lives begins with the
    /// instant of their first entry. Tokens that a producer has drawn do not, so the day is that of `created_ms`.
    pub fn of_life(life: &Generation, created_ms: u64) -> Self {
        Self::of_token(life).unwrap_or_else(|| Self::of_ms(created_ms))
    }

    /// Returns the day that the token of a life shows; `None` if a producer has drawn the token.
    pub fn of_token(life: &Generation) -> Option<Self> {
        let text = life.to_string();
        let (ms, rest) = text.split_once('-').map_or((text.as_str(), None), |(ms, rest)| (ms, Some(rest)));
        let is_entry = rest.is_none_or(|rest| rest.split('-').next().is_some_and(is_digits));
        let ms = ms.parse().ok().filter(|ms| (FIRST_MS..=LAST_MS).contains(ms) && is_entry)?;
        is_digits(&text[..13]).then(|| Self::of_ms(ms))
    }

    /// Returns the day that is this many days later, or earlier if the number is negative; at most 9999-12-31.
    #[must_use]
    pub fn plus(self, days: i32) -> Self {
        Self(self.0.saturating_add(days.days()))
    }

    /// Returns the first millisecond of the day; 0 for days before 1970.
    pub(super) fn start_ms(self) -> u64 {
        let start = Offset::UTC.to_timestamp(self.0.to_datetime(jiff::civil::Time::midnight()));
        start.map_or(0, |start| u64::try_from(start.as_millisecond()).unwrap_or_default())
    }

    /// Returns the name of the partition of this day, such as `d20261130`.
    pub(super) fn partition(self) -> String {
        format!("d{:04}{:02}{:02}", self.0.year(), self.0.month(), self.0.day())
    }

    /// Returns the day whose partition has this name.
    pub(super) fn of_partition(name: &str) -> Option<Self> {
        let digits = name.strip_prefix('d').filter(|digits| digits.len() == 8 && is_digits(digits))?;
        format!("{}-{}-{}", &digits[..4], &digits[4..6], &digits[6..]).parse().ok()
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Writes `YYYY-MM-DD`.
impl fmt::Display for Day {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl FromStr for Day {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(life: &str, created_ms: u64) -> String {
        Day::of_life(&life.parse().unwrap(), created_ms).to_string()
    }

    #[test]
    fn a_life_that_begins_with_an_instant_has_its_day() {
        for life in ["1796083200000-0", "1796083200000-7-high", "1796083200000", "1796169599999-0"] {
            assert_eq!(day(life, 5), "2026-12-01", "{life}");
        }
    }

    #[test]
    fn any_other_life_has_the_day_of_its_creation() {
        let lives = [
            "00000000000000000000000012345678",
            "f2a1",
            "12-0",
            "1796083200000-x",
            "1796083200000x",
            "+796083200000-0",
        ];
        for life in lives {
            assert_eq!(day(life, 1_796_083_200_000), "2026-12-01", "{life}");
            assert!(Day::of_token(&life.parse().unwrap()).is_none());
        }
    }

    #[test]
    fn the_name_of_a_partition_leads_back_to_its_day() {
        let day = Day::of_ms(1_796_083_200_000);
        assert_eq!(day.partition(), "d20261201");
        assert_eq!(Day::of_partition("d20261201"), Some(day));
        for name in ["rest", "d2026120", "d20261301", "dabcdefgh", "d20261201x"] {
            assert_eq!(Day::of_partition(name), None, "{name}");
        }
    }

    #[test]
    fn days_stop_at_the_end_of_time() {
        assert_eq!(Day::of_ms(u64::MAX).to_string(), "9999-12-30");
        assert_eq!(Day::of_ms(u64::MAX).plus(3).to_string(), "9999-12-31");
        assert_eq!(Day::of_ms(0).plus(-1).to_string(), "1969-12-31");
    }
}
