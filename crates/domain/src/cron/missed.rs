//! What happens to ticks that no process handled in time.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Schedule;
use crate::job::Timestamp;

/// A tick counts as missed once it is more than this late, or in a very large fleet as soon as it is no longer in time.
pub const LATE: Duration = Duration::from_secs(60);

/// A tick that is at most this late is not missed, even if a later one has overtaken it: the next process that looks
/// submits it. The other processes take about this long to notice that most of a fleet has died. In a large fleet they
/// take longer, and so may ticks.
pub const IN_TIME: Duration = Duration::from_secs(10);

/// A process that checks on a tick may take this long until Redis has the tick's job.
const SUBMITTED_WITHIN: Duration = Duration::from_secs(8);

/// The most ticks that [`Missed::All`] makes up for at once. These are the latest ones.
pub const MAX_CATCH_UP: usize = 1000;

variants! {
    /// What to do about missed ticks: those that are [`LATE`], and those that a later one has overtaken and that are not [`IN_TIME`].
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Missed: Display {
        /// Nothing. The next tick is on time again.
        #[default]
        Skip = "skip",
        /// Submit one job, for the last of them.
        One = "one",
        /// Submit a job for each, at most [`MAX_CATCH_UP`].
        All = "all",
    }
}

/// What is due at an instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The ticks whose jobs must be submitted, oldest first.
    pub ticks: Vec<Timestamp>,
    /// The last tick that is then handled, submitted or not.
    pub handled: Timestamp,
    /// The number of ticks that are not submitted. Beyond [`MAX_CATCH_UP`], they are not counted.
    pub skipped: usize,
}

/// Returns how late a tick may be and not be missed if the processes check within this time on ticks that they left to others.
pub fn in_time(checked_within: Duration) -> Duration {
    IN_TIME.max(checked_within.saturating_add(SUBMITTED_WITHIN))
}

/// Returns the most ticks that can be in time.
fn most_in_time(in_time: Duration) -> usize {
    let seconds = usize::try_from(in_time.as_secs()).unwrap_or(usize::MAX);
    seconds.saturating_add(1).min(MAX_CATCH_UP)
}

impl Missed {
    /// Returns what is due at `now` if everything up to `handled` has been handled; `None` if nothing is due.
    pub fn due(self, schedule: &Schedule, handled: Timestamp, now: Timestamp) -> Option<Due> {
        self.due_with(schedule, (handled, now), now, IN_TIME)
    }

    /// Returns what is due at `now` of the ticks up to an instant that may lie before it, in a fleet whose ticks may be this late
    /// and not be missed; see [`in_time`].
    #[doc(hidden)]
    pub fn due_with(
        self,
        schedule: &Schedule,
        (handled, until): (Timestamp, Timestamp),
        now: Timestamp,
        in_time: Duration,
    ) -> Option<Due> {
        let first = schedule.next(handled).filter(|tick| *tick <= until)?;
        let most = match self {
            Self::Skip | Self::One => most_in_time(in_time),
            Self::All => MAX_CATCH_UP,
        };
        let mut ticks = schedule.last(most, handled, until);
        if self != Self::All {
            let newest = ticks.last().copied();
            ticks.retain(|tick| now.since(*tick) <= in_time || Some(*tick) == newest);
        }
        let oldest = *ticks.first()?;
        let last = *ticks.last()?;
        let mut skipped = match oldest == first {
            true => 0,
            false => schedule.upcoming(handled).take_while(|tick| *tick < oldest).take(MAX_CATCH_UP).count(),
        };
        if self == Self::Skip && now.since(last) > LATE.max(in_time) {
            skipped += ticks.len();
            ticks.clear();
        }
        Some(Due { ticks, handled: last, skipped })
    }

    /// Returns how many jobs are submitted until `soon` after `now` if everything up to `handled` has been handled.
    pub fn due_within(
        self,
        schedule: &Schedule,
        (handled, now): (Timestamp, Timestamp),
        soon: Duration,
    ) -> usize {
        let owed = self.due(schedule, handled, now).map_or(0, |due| due.ticks.len());
        let last = now.after(soon);
        owed + schedule.upcoming(handled.max(now)).take_while(|tick| *tick <= last).count()
    }
}

impl FromStr for Missed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::named(text).ok_or_else(|| format!("{text:?} is not one of skip, one and all"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::job::Pacing;

    const START: u64 = 1_800_000_000_000;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_ms(START + 1000 * seconds).unwrap()
    }

    fn schedule(expression: &str) -> Schedule {
        Schedule::new(expression, "Europe/Berlin").unwrap()
    }

    fn due(missed: Missed, expression: &str, from: u64, to: u64) -> (Vec<u64>, u64, usize) {
        let due = missed.due(&schedule(expression), at(from), at(to)).unwrap();
        let seconds = |time: Timestamp| (time.as_ms() - START) / 1000;
        (due.ticks.into_iter().map(seconds).collect(), seconds(due.handled), due.skipped)
    }

    #[test]
    fn a_single_tick_is_due_under_every_policy() {
        for missed in Missed::ALL {
            assert_eq!(due(missed, "* * * * *", 1, 61), (vec![60], 60, 0));
            assert_eq!(missed.due(&schedule("* * * * *"), at(60), at(119)), None);
        }
    }

    #[test]
    fn many_missed_ticks_make_none_one_or_all_due() {
        assert_eq!(due(Missed::Skip, "*/5 * * * *", 0, 1000), (vec![], 900, 3));
        assert_eq!(due(Missed::One, "*/5 * * * *", 0, 1000), (vec![900], 900, 2));
        assert_eq!(due(Missed::All, "*/5 * * * *", 0, 1000), (vec![300, 600, 900], 900, 0));
    }

    #[test]
    fn owed_ticks_and_those_within_the_minute_are_counted() {
        let count = |missed: Missed, expression: &str, from: u64, to: u64| {
            missed.due_within(&schedule(expression), (at(from), at(to)), Duration::from_secs(60))
        };
        assert_eq!(count(Missed::Skip, "*/5 * * * *", 0, 239), 0);
        assert_eq!(count(Missed::Skip, "*/5 * * * *", 0, 240), 1);
        assert_eq!(count(Missed::Skip, "*/5 * * * *", 0, 310), 1);
        assert_eq!(count(Missed::Skip, "*/5 * * * *", 300, 310), 0);
        assert_eq!(count(Missed::Skip, "* * * * * *", 0, 0), 60);
        // Missed by more than a minute: the policy decides.
        assert_eq!(
            [Missed::Skip, Missed::One, Missed::All].map(|it| count(it, "*/5 * * * *", 0, 999)),
            [0, 1, 3]
        );
        // The state of an entry may be ahead of the clock that was read.
        assert_eq!(count(Missed::All, "*/5 * * * *", 300, 250), 0);
    }

    #[test]
    fn the_last_tick_is_on_time_if_less_than_a_minute_late() {
        assert_eq!(due(Missed::Skip, "*/15 * * * * *", 0, 59), (vec![45], 45, 2));
        assert_eq!(due(Missed::Skip, "*/5 * * * *", 0, 360), (vec![300], 300, 0));
        assert_eq!(due(Missed::Skip, "*/5 * * * *", 0, 361), (vec![], 300, 1));
    }

    #[test]
    fn a_tick_that_was_just_overtaken_is_not_missed() {
        let all: Vec<u64> = (1..=9).collect();
        for missed in Missed::ALL {
            assert_eq!(due(missed, "* * * * * *", 0, 9), (all.clone(), 9, 0));
        }
        let last: Vec<u64> = (20..=30).collect();
        assert_eq!(due(Missed::Skip, "* * * * * *", 0, 30), (last.clone(), 30, 19));
        assert_eq!(due(Missed::One, "* * * * * *", 0, 30), (last, 30, 19));
    }

    #[test]
    fn the_more_processes_there_are_the_later_a_tick_may_be() {
        let allowed = |processes| in_time(Pacing::of(processes).tick_checked_within()).as_secs();
        assert_eq!([0, 1, 40, 200, 400, 2_000].map(allowed), [10, 10, 10, 18, 28, 108]);
        let schedule = schedule("* * * * * *");
        let due = |in_time| Missed::Skip.due_with(&schedule, (at(0), at(30)), at(30), in_time).unwrap();
        let found = due(Duration::from_secs(28));
        assert_eq!((found.ticks[0], found.ticks.len(), found.skipped), (at(2), 29, 1));
        assert_eq!(due(Duration::MAX).ticks.len(), 30);
    }

    #[test]
    fn after_a_long_outage_the_latest_thousand_ticks_are_caught_up() {
        let (ticks, handled, skipped) = due(Missed::All, "* * * * * *", 0, 90_000);
        assert_eq!((ticks.len(), ticks[0], handled, skipped), (MAX_CATCH_UP, 89_001, 90_000, MAX_CATCH_UP));
        let (ticks, _, skipped) = due(Missed::All, "* * * * * *", 0, 1003);
        assert_eq!((ticks[0], skipped), (4, 3));
        let year = 365 * 24 * 3600;
        let (ticks, _, _) = due(Missed::One, "* * * * * *", 0, 10 * year);
        assert_eq!(ticks.last(), Some(&(10 * year)));
    }

    fn expressions() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec![
            "* * * * *",
            "*/7 * * * *",
            "30 2 * * *",
            "0,30 1-3 * * *",
            "0 */2 * * *",
            "15 4 1 * *",
            "*/20 30 2 * * *",
            "0 0 * * SUN",
        ])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn all_is_the_same_in_one_step_or_in_two(
            expression in expressions(), from in 0..40_000_000_u64, one in 0..40_000_u64, two in 0..40_000_u64,
        ) {
            let schedule = schedule(expression);
            let ticks = |handled, now| Missed::All.due(&schedule, handled, now);
            let whole = ticks(at(from), at(from + one + two));
            let first = ticks(at(from), at(from + one));
            let handled = first.as_ref().map_or(at(from), |due| due.handled);
            let second = ticks(handled, at(from + one + two));
            let all = |dues: Vec<Option<Due>>| {
                dues.into_iter().flatten().flat_map(|due| due.ticks).collect::<Vec<_>>()
            };
            prop_assume!(whole.as_ref().is_none_or(|due| due.skipped == 0));
            prop_assert_eq!(all(vec![first, second]), all(vec![whole]));
        }

        #[test]
        fn a_tick_left_to_any_number_of_processes_is_not_missed(
            processes in 0..10_000_u64, left in 1..1_000_000_u64, roll in 0.0..1.0_f64, ms in 0..8_000_u64,
            expression in prop::sample::select(vec!["* * * * * *", "*/5 * * * * *", "* * * * *"]),
            missed in prop::sample::select(Missed::ALL.to_vec()),
        ) {
            let checked_within = Pacing::of(processes).tick_checked_within();
            let schedule = schedule(expression);
            let tick = schedule.next(at(left)).unwrap();
            let now = tick.after(checked_within.mul_f64(roll) + Duration::from_millis(ms));
            let due = missed.due_with(&schedule, (at(left), now), now, in_time(checked_within)).unwrap();
            prop_assert_eq!((due.ticks.first().copied(), due.skipped), (Some(tick), 0));
        }

        #[test]
        fn due_ticks_are_inside_the_window_and_increase(
            expression in expressions(), from in 0..40_000_000_u64, long in 0..400_000_u64,
            missed in prop::sample::select(Missed::ALL.to_vec()),
        ) {
            let Some(due) = missed.due(&schedule(expression), at(from), at(from + long)) else { return Ok(()) };
            prop_assert!(due.ticks.is_sorted_by(|one, next| one < next));
            prop_assert!(due.ticks.iter().all(|tick| *tick > at(from) && *tick <= at(from + long)));
            prop_assert!(due.ticks.last().is_none_or(|last| *last == due.handled));
            prop_assert!(due.ticks.len() + due.skipped > 0);
            prop_assert_eq!(missed.due(&schedule(expression), due.handled, at(from + long)), None);
        }
    }
}
