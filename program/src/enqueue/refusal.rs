//! What goes wrong with a submission, so that the exit code and the message tell what became of the job.

use anyhow::anyhow;
use streamfleet::{RedisError, SubmitError};

use crate::Wrong;

/// Converts the error of a submission, so that the exit code tells what kind of error it is.
#[expect(clippy::wildcard_enum_match_arm, reason = "every other error is reported as it is")]
pub(crate) fn refused(error: SubmitError) -> anyhow::Error {
    match error {
        SubmitError::Broker(error) => error.into(),
        SubmitError::Payload(_)
        | SubmitError::InvalidPayload { .. }
        | SubmitError::TooLarge { .. }
        | SubmitError::TooManyFields { .. }
        | SubmitError::Header(_)
        | SubmitError::NotOffered(_)
        | SubmitError::DerivedId { .. }
        | SubmitError::Name(_) => Wrong(error.to_string()).into(),
        other => anyhow!(other),
    }
}

/// Says whether a job was submitted whose submission ended with this error.
fn outcome(error: &SubmitError) -> &'static str {
    let is_unknown = matches!(error, SubmitError::Broker(RedisError::Unknown { .. }));
    if is_unknown { "it is unknown whether the job was submitted" } else { "the job was not submitted" }
}

/// Adds to an error of a submission what is known about its job.
pub(super) fn not_submitted(error: SubmitError) -> anyhow::Error {
    // This error already says that the job is accepted.
    if matches!(error, SubmitError::Unconfirmed { .. }) {
        return error.into();
    }
    let what = outcome(&error);
    refused(error).context(what)
}
