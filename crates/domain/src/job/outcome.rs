//! What happened to one attempt. [`settle`](super::settle) decides what follows from it.

use std::time::Duration;

use bytes::Bytes;

use super::Parking;

/// What happened to one attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The handler succeeded; contains its result, if it gave one.
    Done(Option<Bytes>),
    /// The handler wants to run again after this delay. No attempt is spent.
    Snoozed(Duration),
    /// The worker cut the attempt short because it is stopping or lost contact with Redis. No attempt is spent.
    Interrupted,
    /// The entry was read before it was due, or while as many of its type or key ran as may. It should run after this delay.
    NotDue(Duration),
    /// The attempt may not start now: the job has to wait in a waiting list. No attempt is spent.
    Parked(Parking),
    /// No handler of this worker knows the type. Another worker may know it.
    Unroutable,
    /// The job had not started when its `expires_at_ms` passed.
    Expired,
    /// The handler failed.
    Failed(Failure),
    /// A person cancelled the job, and the attempt was stopped.
    Cancelled,
    /// The handler says that the job should not be done at all; contains its reason, for people.
    Dropped(String),
    /// What ran the attempt is gone, its worker or a program that had other jobs too; contains what happened. No attempt is spent.
    Lost(String),
    /// The entry is not a job.
    Malformed(String),
    /// The payload does not fit the schema of the job's type; contains what does not fit. No attempt is spent.
    Invalid(String),
}

/// Why a handler's attempt failed, and whether it may be retried.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Failure {
    /// What kind of failure it was.
    pub kind: FailureKind,
    /// The handler's error message, for people; at most [`Failure::MAX_ERROR_BYTES`].
    pub error: String,
    /// What the failure itself says about retries.
    pub retry: Retry,
}

variants! {
    /// The kinds of failures, as named in metrics and records.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum FailureKind {
        /// The handler returned an error.
        Error = "error",
        /// The handler ran longer than its timeout.
        Timeout = "timeout",
        /// The handler panicked.
        Panic = "panic",
        /// The handler cannot say whether its work was done: an answer was lost, or a program was killed.
        Unknown = "unknown",
    }
}

/// Whether a failed attempt may be retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// As the type's policy says.
    Policy,
    /// As the policy says, but no sooner than this.
    After(Duration),
    /// Never: the job is dead at once.
    Never,
    /// After exactly this delay, however often the job has failed: its steps have their own limits.
    Steps(Duration),
    /// Never, for this reason.
    Bury(DeadReason),
}

impl Failure {
    /// The longest error text in bytes. Longer ones are cut.
    pub const MAX_ERROR_BYTES: usize = 4096;

    /// Creates a failure, and cuts its text to the length that records and dead letters keep.
    pub fn new(kind: FailureKind, error: impl Into<String>, retry: Retry) -> Self {
        Self { kind, error: cut(error.into(), Self::MAX_ERROR_BYTES), retry }
    }
}

/// Cuts `text` to at most `max` bytes between two characters, and marks the cut.
pub fn cut(mut text: String, max: usize) -> String {
    const MARK: &str = " …";
    if text.len() > max {
        let mut end = max.saturating_sub(MARK.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(MARK);
    }
    text
}

variants! {
    /// Why a job is in the dead stream.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum DeadReason: Display {
        /// It failed `max_attempts` times.
        Exhausted = "exhausted",
        /// The handler said that it can never succeed.
        Fatal = "fatal",
        /// Its workers died or froze `max_losses` times.
        Lost = "lost",
        /// It had not started by its `expires_at_ms`.
        Expired = "expired",
        /// The entry is not a job.
        Malformed = "malformed",
        /// No worker of the fleet knew its type for too long.
        Unroutable = "unroutable",
        /// A step that must not run twice failed or was cut short. A person must decide.
        NeedsDecision = "needs_decision",
        /// Its payload does not fit the schema of its type.
        Invalid = "invalid",
        /// It had ended, and somebody brought it back from the history to run it again.
        Restored = "restored",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_errors_are_cut_between_characters() {
        let failure = Failure::new(FailureKind::Error, "é".repeat(5000), Retry::Policy);
        assert!(failure.error.len() <= Failure::MAX_ERROR_BYTES);
        assert!(failure.error.ends_with('…'));
        assert_eq!(cut("short".to_owned(), 100), "short");
    }
}
