//! What a rule of the configuration makes of an answer, whatever the rule looks at.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Backoff, JobError, duration};

/// The outcome of an attempt that a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleAction {
    /// Buried at once: another attempt would not help.
    Fatal,
    /// Failed: retried according to the type's policy.
    Retry,
    /// Failed, and nobody knows whether the work was done: retried according to the type's policy. A step that must not
    /// run twice becomes unknown.
    Unknown,
    /// Failed: retried according to the policy, but not earlier than this.
    RetryAfter(#[serde(with = "duration")] Duration),
    /// Not a failure: runs again after this, and no attempt is spent.
    Snooze(#[serde(with = "duration")] Duration),
    /// No longer wanted: ends as cancelled, neither done nor dead.
    Drop,
    /// Done after all. The output is the result.
    Done,
}

impl RuleAction {
    /// Returns the error that a handler reports for it, or `None` for a success. `message` is the error's text, or the
    /// reason.
    #[doc(hidden)]
    pub fn error(self, message: impl FnOnce() -> String) -> Option<JobError> {
        match self {
            Self::Fatal => Some(JobError::fatal(message())),
            Self::Retry => Some(JobError::retry(message())),
            Self::Unknown => Some(JobError::unknown(message())),
            Self::RetryAfter(pause) => Some(JobError::retry_after(pause, message())),
            Self::Snooze(pause) => Some(JobError::snooze(pause)),
            Self::Drop => Some(JobError::drop_job(message())),
            Self::Done => None,
        }
    }

    /// Returns what is wrong with its pause: the action's name, and the reason.
    #[doc(hidden)]
    pub fn wrong(self) -> Option<(&'static str, &'static str)> {
        let (name, pause) = match self {
            Self::RetryAfter(pause) => ("retry_after", pause),
            Self::Snooze(pause) => ("snooze", pause),
            Self::Fatal | Self::Retry | Self::Unknown | Self::Drop | Self::Done => return None,
        };
        if pause.is_zero() {
            return Some((name, "must be greater than zero"));
        }
        (pause > Backoff::LONGEST).then_some((name, "must be at most 365 days"))
    }
}
