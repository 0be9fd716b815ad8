//! How fast a queue empties, by its samples.

use std::time::Duration;

use super::chart::Minute;

/// How many of the last minutes count.
const LAST: usize = 5;

/// How long the waiting jobs last at the pace of the last minutes; `None` if they do not become fewer, or nobody knows.
pub(super) fn time_to_empty(waiting: u64, minutes: &[Minute]) -> Option<Duration> {
    let last = &minutes[minutes.len().saturating_sub(LAST)..];
    let sum = |value: fn(&Minute) -> u64| last.iter().map(value).fold(0, u64::saturating_add);
    let net = sum(|minute| minute.done).checked_sub(sum(|minute| minute.arrived)).filter(|net| *net > 0)?;
    if waiting == 0 {
        return Some(Duration::ZERO);
    }
    let seconds = waiting as f64 / net as f64 * 60.0 * last.len() as f64;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_lasts_as_long_as_its_pace_says() {
        let minute = |arrived, done| Minute { arrived, done, ..Minute::default() };
        assert_eq!(time_to_empty(5, &[]), None);
        assert_eq!(time_to_empty(5, &[minute(3, 3)]), None);
        assert_eq!(time_to_empty(100, &[minute(0, 10)]), Some(Duration::from_secs(600)));
        let minutes =
            [minute(900, 0), minute(0, 10), minute(0, 10), minute(0, 10), minute(0, 10), minute(0, 10)];
        assert_eq!(time_to_empty(100, &minutes), Some(Duration::from_secs(600)), "only the last five count");
        assert_eq!(time_to_empty(0, &[minute(0, 1)]), Some(Duration::ZERO));
    }
}
