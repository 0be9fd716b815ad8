//! Varies times at random, so that processes that started together do not act in step.

use std::ops::Range;
use std::time::Duration;

/// Returns a time, multiplied by a factor between these two, which are not negative. `roll`, a random number from 0 to 1, says
/// where between them the factor is.
pub fn jittered(time: Duration, factors: Range<f64>, roll: f64) -> Duration {
    time.mul_f64(factors.start + roll * (factors.end - factors.start))
}

/// Returns the pause after this many failures in a row before it: the first one, doubled as often, and never longer than `longest`.
pub fn doubled(first: Duration, failures: u32, longest: Duration) -> Duration {
    first.saturating_mul(1 << failures.min(10)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_roll_says_where_between_the_factors_the_time_is() {
        let second = Duration::from_secs(1);
        let times = [0.0, 0.5, 1.0].map(|roll| jittered(second, 0.5..1.5, roll).as_millis());
        assert_eq!(times, [500, 1000, 1500]);
        assert_eq!(jittered(second, 1.0..1.0, 0.7), second);
    }

    #[test]
    fn a_pause_doubles_up_to_the_longest() {
        let [first, longest] = [1, 30].map(Duration::from_secs);
        let pauses = [0, 1, 4, 5, u32::MAX].map(|failures| doubled(first, failures, longest).as_secs());
        assert_eq!(pauses, [1, 2, 16, 30, 30]);
    }

    proptest! {
        #[test]
        fn a_time_stays_between_its_factors(ms in 0_u64..1_000_000_000, least in 0.0_f64..2.0, width in 0.0_f64..2.0, roll in 0.0_f64..1.0) {
            let (time, tolerance) = (Duration::from_millis(ms), Duration::from_micros(1));
            let varied = jittered(time, least..least + width, roll);
            prop_assert!(varied + tolerance >= time.mul_f64(least));
            prop_assert!(varied <= time.mul_f64(least + width) + tolerance);
        }
    }
}
