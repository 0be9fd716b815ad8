//! When a pool may start a program again. Pure.

use std::time::{Duration, Instant};

use crate::job::jittered;

/// The pause after the first failure.
const SHORTEST: Duration = Duration::from_millis(200);

/// The longest pause.
const LONGEST: Duration = Duration::from_secs(30);

/// Counts the failures of a pool's programs since one of them answered a job.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    failures: u32,
    not_before: Option<Instant>,
}

impl Restarts {
    /// Notes that a program failed to start, or crashed. Failures during a pause do not prolong it: several programs may fail
    /// for the same reason. `roll` is a random number from 0 to 1.
    pub(super) fn failed(&mut self, now: Instant, roll: f64) {
        if self.not_before.is_some_and(|until| until > now) {
            return;
        }
        let pause = SHORTEST.saturating_mul(1 << self.failures.min(10)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now + jittered(pause, 0.5..1.0, roll));
    }

    /// Notes that a program answered a job.
    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// Returns the instant before which no program should start.
    pub(super) fn not_before(&self) -> Option<Instant> {
        self.not_before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound_and_begin_short_after_a_success() {
        let (mut restarts, mut now) = (Restarts::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..12 {
            restarts.failed(now, 1.0);
            let until = restarts.not_before().unwrap();
            pauses.push(until.duration_since(now));
            now = until;
        }
        assert_eq!(pauses[..3], [200, 400, 800].map(Duration::from_millis));
        assert_eq!(pauses.last(), Some(&LONGEST));
        restarts.succeeded();
        assert_eq!(restarts.not_before(), None);
        restarts.failed(now, 0.0);
        assert_eq!(restarts.not_before(), Some(now + SHORTEST / 2));
    }

    #[test]
    fn programs_that_fail_together_count_once() {
        let (mut restarts, now) = (Restarts::default(), Instant::now());
        restarts.failed(now, 1.0);
        let first = restarts.not_before();
        (0..100).for_each(|_| restarts.failed(now, 1.0));
        assert_eq!(restarts.not_before(), first);
    }
}
