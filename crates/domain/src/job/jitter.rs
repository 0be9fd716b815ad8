//! Varies times at random, so that processes that started together do not act in step.

use std::ops::Range;
use std::time::Duration;

/// Returns a time, multiplied by a factor between these two, which are not negative. `roll`, a random number from 0 to 1, says
/// where between them the factor is.
pub fn jittered(time: Duration, factors: Range<f64>, roll: f64) -> Duration {
    time.mul_f64(factors.start + roll * (factors.end - factors.start))
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
