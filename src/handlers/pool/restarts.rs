//! When a pool may start a program again, and why none of its programs serves. Pure.

use std::time::{Duration, Instant};

use crate::job::{doubled, jittered};

/// The pause after the first failure.
const SHORTEST: Duration = Duration::from_millis(200);

/// The longest pause.
const LONGEST: Duration = Duration::from_secs(30);

/// After so many failures without an answer between them, programs keep failing, …
const MANY: u32 = 5;

/// … until there has been none for this long.
const FAILING_FOR: Duration = Duration::from_secs(120);

/// Counts the failures of a pool's programs since one of them answered a job.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    failures: u32,
    last: Option<Instant>,
    pub(super) not_before: Option<Instant>,
    /// Why none serves, and whether the program that said so had been ready.
    fault: Option<(String, bool)>,
}

impl Restarts {
    /// Notes that a program failed to start, or crashed. Failures during a pause do not prolong it: several programs may fail
    /// for the same reason. `roll` is a random number from 0 to 1.
    pub(super) fn failed(&mut self, now: Instant, roll: f64) {
        self.last = Some(now);
        if self.not_before.is_some_and(|until| until > now) {
            return;
        }
        let pause = doubled(SHORTEST, self.failures, LONGEST);
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now + jittered(pause, 0.5..1.0, roll));
    }

    /// Notes why a program did not start while none served. While another one serves, that one may end well later, and the next
    /// one may start.
    pub(super) fn note_fault(&mut self, why: &str) {
        self.fault = Some((why.to_owned(), false));
    }

    /// Notes why a program that was ready failed. That matters only if programs keep failing.
    pub(super) fn note_crash(&mut self, why: &str, now: Instant) {
        if self.keep_failing(now) {
            self.fault = Some((why.to_owned(), true));
        }
    }

    /// Notes that a program is ready.
    pub(super) fn ready(&mut self, now: Instant) {
        if !self.keep_failing(now) {
            self.fault = None;
        }
    }

    /// Notes that a program answered a job.
    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// Returns why no program serves, or why programs keep failing, if that is so.
    pub(super) fn fault(&self, now: Instant, serves: bool) -> Option<String> {
        let (why, was_ready) = self.fault.clone()?;
        let lasts = self.keep_failing(now) || !(serves || was_ready);
        lasts.then_some(why)
    }

    /// Whether programs start, and end before they have answered a job.
    fn keep_failing(&self, now: Instant) -> bool {
        let is_recent = self.last.is_some_and(|last| now.saturating_duration_since(last) < FAILING_FOR);
        self.failures >= MANY && is_recent
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
            let until = restarts.not_before.unwrap();
            pauses.push(until.duration_since(now));
            now = until;
        }
        assert_eq!(pauses[..3], [200, 400, 800].map(Duration::from_millis));
        assert_eq!(pauses.last(), Some(&LONGEST));
        restarts.succeeded();
        assert_eq!(restarts.not_before, None);
        restarts.failed(now, 0.0);
        assert_eq!(restarts.not_before, Some(now + SHORTEST / 2));
    }

    #[test]
    fn a_fault_is_over_when_a_program_is_ready_unless_programs_keep_failing() {
        let (mut restarts, mut now) = (Restarts::default(), Instant::now());
        restarts.failed(now, 1.0);
        restarts.note_crash("killed", now);
        assert_eq!(restarts.fault(now, false), None, "it was the only one");
        restarts.note_fault("no DB_HOST");
        assert_eq!(restarts.fault(now, false).as_deref(), Some("no DB_HOST"));
        assert_eq!(restarts.fault(now, true), None);
        restarts.ready(now);
        assert_eq!(restarts.fault(now, false), None);
        for _ in 0..MANY {
            now = restarts.not_before.unwrap();
            restarts.failed(now, 1.0);
            restarts.note_crash("killed", now);
            restarts.ready(now);
        }
        assert_eq!(restarts.fault(now, true).as_deref(), Some("killed"));
        assert_eq!(restarts.fault(now + FAILING_FOR, false), None);
        restarts.succeeded();
        assert_eq!(restarts.fault(now, false), None);
    }

    #[test]
    fn programs_that_fail_together_count_once() {
        let (mut restarts, now) = (Restarts::default(), Instant::now());
        restarts.failed(now, 1.0);
        let first = restarts.not_before;
        (0..100).for_each(|_| restarts.failed(now, 1.0));
        assert_eq!(restarts.not_before, first);
    }
}
