//! How a made-up attempt ended.

use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::job::{Burial, DeadReason, Job, Outcome, Policy, Routing, Settlement, settle};
use crate::worker::Inline;

/// An attempt that ended.
#[derive(Debug, Clone)]
pub struct Ended {
    job: Option<Job>,
    came_of_it: Inline,
    elapsed: Duration,
}

impl Ended {
    pub(super) fn new(job: Job, came_of_it: Inline, elapsed: Duration) -> Self {
        Self { job: Some(job), came_of_it, elapsed }
    }

    pub(super) fn unrun(outcome: Outcome) -> Self {
        let came_of_it = Inline { outcome, progress: None, lines: Vec::new() };
        Self { job: None, came_of_it, elapsed: Duration::ZERO }
    }

    /// What happened: done, failed (an error, a panic or a timeout), snoozed, dropped, interrupted, or malformed.
    pub fn outcome(&self) -> &Outcome {
        &self.came_of_it.outcome
    }

    /// True where the handler succeeded.
    pub fn is_done(&self) -> bool {
        matches!(self.outcome(), Outcome::Done(_))
    }

    /// What success returned, as a record would keep it; `None` for nothing, for what is no such value, and for anything
    /// but a success.
    pub fn result<T: DeserializeOwned>(&self) -> Option<T> {
        let Outcome::Done(result) = self.outcome() else { return None };
        serde_json::from_slice(result.as_deref().unwrap_or(b"null")).ok()
    }

    /// Why it was no success, in words: the error of a failure, the reason of a dropped job, the rule that a malformed one
    /// breaks.
    pub fn error(&self) -> Option<&str> {
        if let Outcome::Failed(failure) = self.outcome() {
            return Some(&failure.error);
        }
        let (Outcome::Dropped(why) | Outcome::Malformed(why)) = self.outcome() else { return None };
        Some(why)
    }

    /// The last progress that the handler told: percent and note.
    pub fn progress(&self) -> Option<(u8, &str)> {
        self.came_of_it.progress.as_ref().map(|(percent, note)| (*percent, note.as_str()))
    }

    /// The lines that the handler logged, the last 100.
    pub fn log(&self) -> &[String] {
        &self.came_of_it.lines
    }

    /// How long the handler ran.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// What a fleet would do about it under this policy. Chance is left out: pauses are those of the policy's backoff.
    pub fn settlement(&self, policy: &Policy) -> Settlement {
        // The middle of the roll neither adds to a pause nor takes away.
        const NO_CHANCE: f64 = 0.5;
        match &self.job {
            Some(job) => settle(job, policy, Routing::default(), self.outcome(), NO_CHANCE),
            None => Settlement::Bury(Burial {
                reason: DeadReason::Malformed,
                error: self.error().unwrap_or_default().to_owned(),
                attempts: 0,
            }),
        }
    }
}
