//! How important a job is, from 1 to 10, for those who are used to such numbers. It selects the lane, and decides between
//! delayed jobs that are due at the same time.

use std::fmt;
use std::str::FromStr;

use super::{InvalidName, Lane};

/// How important a job is: 1 is the least, 10 the most. 1 to 3 is the low lane, 4 to 7 the normal one, 8 to 10 the high one.
///
/// Of the delayed jobs of one lane that are due in the same millisecond, those with a higher priority come first. A job
/// that was given only its lane counts as if it had the highest priority of that lane.
///
/// ```
/// # use streamfleet_domain as streamfleet;
/// use streamfleet::job::{Lane, Priority};
///
/// let urgent = Priority::new(9).expect("9 is between 1 and 10");
/// assert_eq!(urgent.lane(), Lane::High);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u8);

impl Priority {
    /// The least important.
    pub const LOWEST: Self = Self(1);

    /// The most important.
    pub const HIGHEST: Self = Self(10);

    /// Returns the priority of this number; `None` if it is not between 1 and 10.
    pub fn new(number: u8) -> Option<Self> {
        let priority = Self(number);
        (Self::LOWEST..=Self::HIGHEST).contains(&priority).then_some(priority)
    }

    /// Returns its number, 1 to 10.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Returns the lane that it stands for.
    pub fn lane(self) -> Lane {
        self.place().0
    }

    /// Returns its place in its lane: 0 for the highest priority of that lane, and so on.
    #[doc(hidden)]
    pub fn rank(self) -> u8 {
        self.place().1 - self.0
    }

    /// Returns the lane, and the number of the highest priority of that lane.
    fn place(self) -> (Lane, u8) {
        match self.0 {
            0..=3 => (Lane::Low, 3),
            4..=7 => (Lane::Normal, 7),
            8.. => (Lane::High, 10),
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl FromStr for Priority {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rule = "a priority must be a whole number from 1 (lowest) to 10 (highest)";
        let number = text.parse().ok().and_then(Self::new);
        number.ok_or_else(|| InvalidName::new("priority", text, rule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_priority_has_a_lane_and_a_place_in_it() {
        let places: Vec<_> =
            (1..=10).filter_map(Priority::new).map(|priority| (priority.lane(), priority.rank())).collect();
        let [high, normal, low] = Lane::ALL;
        let of_low = [(low, 2), (low, 1), (low, 0)];
        let of_normal = [(normal, 3), (normal, 2), (normal, 1), (normal, 0)];
        let of_high = [(high, 2), (high, 1), (high, 0)];
        assert_eq!(places, [&of_low[..], &of_normal, &of_high].concat());
    }

    proptest! {
        #[test]
        fn only_numbers_from_1_to_10_are_priorities(number: u8) {
            let read: Result<Priority, _> = number.to_string().parse();
            prop_assert_eq!(read.ok(), Priority::new(number));
            prop_assert_eq!(Priority::new(number).is_some(), (1..=10).contains(&number));
        }
    }

    #[test]
    fn other_texts_are_refused_with_the_rule() {
        for text in ["", "high", "-1", "5.0", "11", "999"] {
            let error = text.parse::<Priority>().unwrap_err().to_string();
            assert!(error.contains("from 1 (lowest) to 10 (highest)"), "{error}");
        }
    }
}
