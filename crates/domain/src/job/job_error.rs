//! How a handler says that it did not succeed.

use std::fmt;
use std::time::Duration;

use super::{Failure, FailureKind, Outcome, Retry, cut};

/// Why a handler did not succeed, and what should follow. `?` turns every error into one that is retried.
///
/// ```
/// use std::time::Duration;
///
/// # use streamfleet_domain::job as streamfleet;
/// use streamfleet::JobError;
///
/// fn check(status: u16) -> Result<(), JobError> {
///     match status {
///         200 => Ok(()),
///         404 => Err(JobError::fatal("no such customer")),
///         429 => Err(JobError::retry_after(Duration::from_secs(30), "too many requests")),
///         _ => Err(JobError::retry(format!("the endpoint answered {status}"))),
///     }
/// }
/// ```
pub struct JobError(Kind);

enum Kind {
    Failed(Failure),
    Snooze(Duration),
    Drop(String),
    Lost(String),
}

impl JobError {
    /// Creates a failure that is retried as the type's policy says.
    pub fn retry(error: impl fmt::Display) -> Self {
        Self::failed(error, Retry::Policy)
    }

    /// Creates a failure that is retried, but no sooner than after `delay`.
    pub fn retry_after(delay: Duration, error: impl fmt::Display) -> Self {
        Self::failed(error, Retry::After(delay))
    }

    /// Creates a failure that no further attempt can fix: the job is buried at once.
    pub fn fatal(error: impl fmt::Display) -> Self {
        Self::failed(error, Retry::Never)
    }

    /// Creates a failure that leaves open whether the work was done: an answer was lost, or what does the work was
    /// killed. It is retried as the type's policy says. A step that must not run twice becomes
    /// [unknown](crate::job::StepState::Unknown), and a person decides.
    pub fn unknown(error: impl fmt::Display) -> Self {
        Self(Kind::Failed(Failure::new(FailureKind::Unknown, error.to_string(), Retry::Policy)))
    }

    /// Runs this job again after `delay`. This is not a failure, and no attempt is spent.
    pub fn snooze(delay: Duration) -> Self {
        Self(Kind::Snooze(delay))
    }

    /// Returns the failure, if it is one. Snoozing and dropping are not failures.
    pub fn failure(&self) -> Option<&Failure> {
        match &self.0 {
            Kind::Failed(failure) => Some(failure),
            Kind::Snooze(_) | Kind::Drop(_) | Kind::Lost(_) => None,
        }
    }

    /// Drops a job that nobody wants any more. It ends as cancelled, neither done nor dead, with this reason in its record.
    pub fn drop_job(reason: impl fmt::Display) -> Self {
        Self(Kind::Drop(cut(reason.to_string(), Failure::MAX_ERROR_BYTES)))
    }

    /// Ends the attempt as if its worker had been lost: what ran it is gone, and the job is not known to be the cause. No attempt
    /// is spent, but a loss is counted.
    #[doc(hidden)]
    pub fn lost(why: String) -> Self {
        Self(Kind::Lost(cut(why, Failure::MAX_ERROR_BYTES)))
    }

    /// Returns the same failure, but leaves open whether the work was done.
    #[doc(hidden)]
    #[must_use]
    pub fn and_unknown(mut self) -> Self {
        if let Kind::Failed(failure) = &mut self.0 {
            failure.kind = FailureKind::Unknown;
        }
        self
    }

    fn failed(error: impl fmt::Display, retry: Retry) -> Self {
        Self(Kind::Failed(Failure::new(FailureKind::Error, error.to_string(), retry)))
    }

    /// Returns the outcome of the attempt that ended with this error.
    #[doc(hidden)]
    pub fn into_outcome(self) -> Outcome {
        match self.0 {
            Kind::Failed(failure) => Outcome::Failed(failure),
            Kind::Snooze(delay) => Outcome::Snoozed(delay),
            Kind::Drop(reason) => Outcome::Dropped(reason),
            Kind::Lost(why) => Outcome::Lost(why),
        }
    }
}

impl fmt::Debug for JobError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Failed(failure) => write!(out, "{} ({:?})", failure.error, failure.retry),
            Kind::Snooze(delay) => write!(out, "snooze for {delay:?}"),
            Kind::Drop(reason) => write!(out, "drop the job: {reason}"),
            Kind::Lost(why) => write!(out, "lost: {why}"),
        }
    }
}

impl From<Failure> for JobError {
    fn from(failure: Failure) -> Self {
        Self(Kind::Failed(failure))
    }
}

impl<E: std::error::Error> From<E> for JobError {
    fn from(error: E) -> Self {
        use std::fmt::Write;
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            write!(text, ": {cause}").expect("writing to a String cannot fail");
            source = cause.source();
        }
        Self::retry(text)
    }
}
