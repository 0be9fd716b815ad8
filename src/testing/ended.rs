//! How a made-up attempt ended.

use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::job::{Burial, DeadReason, JobSpec, Outcome, Policy, Settlement, settle};
use crate::worker::Inline;

/// An attempt that ended.
#[derive(Debug, Clone)]
pub struct Ended {
    job: Option<JobSpec>,
    came_of_it: Inline,
    elapsed: Duration,
}

impl Ended {
    pub(super) fn new(job: JobSpec, came_of_it: Inline, elapsed: Duration) -> Self {
        Self { job: Some(job), came_of_it, elapsed }
    }

    pub(super) fn unrun(outcome: Outcome) -> Self {
        let came_of_it = Inline { outcome, progress: None, lines: Vec::new() };
        Self { job: None, came_of_it, elapsed: Duration::ZERO }
    }

    /// Returns what happened: done, failed (an error, a panic or a timeout), snoozed, dropped, interrupted, or
    /// malformed.
    pub fn outcome(&self) -> &Outcome {
        &self.came_of_it.outcome
    }

    /// Returns true if the handler succeeded.
    pub fn is_done(&self) -> bool {
        matches!(self.outcome(), Outcome::Done(_))
    }

    /// Returns the handler's result as a record would keep it; `None` if there is none, if it cannot be read as a `T`,
    /// or if the attempt did not succeed.
    pub fn result<T: DeserializeOwned>(&self) -> Option<T> {
        let Outcome::Done(result) = self.outcome() else { return None };
        serde_json::from_slice(result.as_deref().unwrap_or(b"null")).ok()
    }

    /// Returns why the attempt did not succeed: the error of a failure, the reason for a dropped job, or the rule that
    /// a malformed or invalid job breaks.
    pub fn error(&self) -> Option<&str> {
        if let Outcome::Failed(failure) = self.outcome() {
            return Some(&failure.error);
        }
        let (Outcome::Dropped(why) | Outcome::Malformed(why) | Outcome::Invalid(why)) = self.outcome() else {
            return None;
        };
        Some(why)
    }

    /// Returns the last progress that the handler reported: percent and note.
    pub fn progress(&self) -> Option<(u8, &str)> {
        self.came_of_it.progress.as_ref().map(|(percent, note)| (*percent, note.as_str()))
    }

    /// Returns the last 100 lines that the handler logged.
    pub fn log(&self) -> &[String] {
        &self.came_of_it.lines
    }

    /// Returns how long the handler ran.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Returns what a fleet would do with the job under this policy. Pauses are the policy's backoff without jitter.
    pub fn settlement(&self, policy: &Policy) -> Settlement {
        // The middle of the range neither lengthens a pause nor shortens it.
        const NO_CHANCE: f64 = 0.5;
        match &self.job {
            Some(job) => settle(job, policy, self.outcome(), NO_CHANCE),
            None => Settlement::Bury(Burial {
                reason: DeadReason::Malformed,
                error: self.error().unwrap_or_default().to_owned(),
                attempts: 0,
            }),
        }
    }
}
