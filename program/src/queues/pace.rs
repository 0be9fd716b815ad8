//! How fast a queue empties: the difference between two looks at it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use serde::Serialize;
use streamfleet::job::Timestamp;

use crate::times::short;

/// How the number of waiting jobs changed between two looks, for JSON output.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct Pace {
    /// By how many jobs per second it shrank; negative if it grew.
    shrinks_per_second: f64,
    /// How long the waiting jobs last at this rate; `None` if they do not get fewer.
    empty_in_ms: Option<u64>,
    /// The time between the two looks.
    measured_ms: u64,
}

/// The last look at each queue.
#[derive(Debug, Default)]
pub(super) struct Looks(RefCell<HashMap<String, (Timestamp, u64)>>);

impl Looks {
    /// Notes how many jobs wait now, and returns the pace since the last look.
    pub(super) fn note(&self, queue: &str, now: Timestamp, waiting: u64) -> Option<Pace> {
        let before = self.0.borrow_mut().insert(queue.to_owned(), (now, waiting));
        before.and_then(|before| Pace::between(before, (now, waiting)))
    }
}

impl Pace {
    fn between((then, before): (Timestamp, u64), (now, waiting): (Timestamp, u64)) -> Option<Self> {
        let measured = now.since(then);
        if measured.is_zero() {
            return None;
        }
        let shrinks_per_second = (before as f64 - waiting as f64) / measured.as_secs_f64();
        let empty_in_ms = match (waiting, shrinks_per_second > 0.0) {
            (0, _) => Some(0),
            (_, true) => Some((waiting as f64 / shrinks_per_second * 1000.0) as u64),
            (_, false) => None,
        };
        let measured_ms = u64::try_from(measured.as_millis()).unwrap_or(u64::MAX);
        Some(Self { shrinks_per_second, empty_in_ms, measured_ms })
    }

    /// How long the waiting jobs last, in words.
    pub(super) fn shown(self) -> String {
        match self.empty_in_ms {
            Some(0) => "empty".to_owned(),
            Some(ms) => short(Duration::from_millis(ms)),
            None if self.shrinks_per_second < 0.0 => "grows".to_owned(),
            None => "stays".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(before: u64, waiting: u64) -> String {
        let at = |ms| Timestamp::from_ms(ms).unwrap();
        Pace::between((at(1_000), before), (at(3_000), waiting)).unwrap().shown()
    }

    #[test]
    fn waiting_jobs_last_as_long_as_the_rate_of_the_last_looks_says() {
        assert_eq!(shown(300, 100), "1s");
        assert_eq!(shown(100_000, 99_998), "1d 3h");
        assert_eq!([shown(100, 0), shown(0, 0)], ["empty", "empty"]);
        assert_eq!([shown(100, 101), shown(7, 7)], ["grows", "stays"]);
    }

    #[test]
    fn two_looks_are_needed() {
        let (looks, at) = (Looks::default(), |ms| Timestamp::from_ms(ms).unwrap());
        assert_eq!(looks.note("mail", at(1_000), 5), None);
        assert_eq!(looks.note("mail", at(1_000), 5), None);
        assert_eq!(looks.note("post", at(2_000), 5), None);
        assert_eq!(looks.note("mail", at(2_000), 4).unwrap().empty_in_ms, Some(4_000));
    }
}
