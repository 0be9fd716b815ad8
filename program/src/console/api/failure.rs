//! What goes wrong in the functions that the API shares with the command line, as a problem.

use axum::http::StatusCode;
use streamfleet::job::InvalidPayload;
use streamfleet::{RedisError, SubmitError};
use streamfleet_engine::admin::Noted;
use streamfleet_operations as operations;
use streamfleet_operations::submit::Invalid;

use super::revision::changed;
use crate::Wrong;
use crate::console::field_error::FieldError;
use crate::console::problem::Problem;
use crate::console::problem_kind::ProblemKind;

/// After how many seconds a submission to a full queue may be tried again.
const FULL_FOR: u64 = 5;

/// Converts the error of a shared function.
pub(super) fn failed(error: anyhow::Error) -> Problem {
    if let Some(Wrong(why)) = error.downcast_ref() {
        return Problem::new(ProblemKind::RequestNotValid, why.clone());
    }
    match error.chain().find_map(|cause| cause.downcast_ref::<RedisError>()) {
        Some(redis) => Problem::redis(&error.to_string(), redis),
        None => {
            tracing::warn!(error = %format!("{error:#}"), "a request to the console failed");
            Problem::new(ProblemKind::RequestFailed, format!("{error:#}"))
        }
    }
}

/// Returns what an operation returned, or its error as a problem.
pub(super) fn done<T>(done: Result<Noted<T>, operations::Error>) -> Result<T, Problem> {
    let Noted { value, unnoted, .. } = done?;
    if let Some(why) = unnoted {
        tracing::warn!(why, "an action was not noted in the audit");
    }
    Ok(value)
}

/// Words the error of an operation for the API.
impl From<operations::Error> for Problem {
    fn from(error: operations::Error) -> Self {
        match error {
            operations::Error::Invalid { field, why } if field == "body" => Self::field("body", why),
            operations::Error::Invalid { field, why } => Self::field(format!("/{field}"), why),
            operations::Error::NotFound(what) => Self::not_found(what),
            operations::Error::Conflict(why) => Self::conflict(why),
            operations::Error::Changed => changed(),
            operations::Error::Unfit { why, invalid } => unfit(&invalid, why),
            operations::Error::Stopped => {
                let why =
                    "it takes too long: nothing was changed; narrow the filter, or use the command line";
                Self::new(ProblemKind::TooManyJobs, why)
            }
            operations::Error::Doubtful(why) => {
                Self::conflict(format!("{why}: send \"confirm\": true if that is meant"))
            }
            operations::Error::Database { what, error } => Self::database(&what, &error),
            operations::Error::Redis { what, error } => Self::redis(&what, &error),
            error => Self::conflict(error.to_string()),
        }
    }
}

/// Converts an error of Redis.
pub(super) fn redis(what: &'static str) -> impl Fn(RedisError) -> Problem {
    move |error| Problem::redis(what, &error)
}

/// Says which key of a job is wrong.
pub(super) fn invalid(invalid: Invalid) -> Problem {
    let at = invalid.key.as_deref().map_or_else(|| "body".to_owned(), |key| format!("/{key}"));
    let problem = Problem::field(at, invalid.why);
    if invalid.is_json { problem } else { problem.with_status(StatusCode::BAD_REQUEST) }
}

/// Converts the error of a submission.
#[expect(clippy::wildcard_enum_match_arm, reason = "every other error is about the job itself")]
pub(super) fn refused(error: &SubmitError) -> Problem {
    let text = error.to_string();
    match error {
        SubmitError::Broker(error) => Problem::redis("the job may or may not be submitted", error),
        SubmitError::Full { .. } => Problem::new(ProblemKind::QueueFull, text).retry_after(FULL_FOR),
        SubmitError::Unconfirmed { .. } => Problem::new(ProblemKind::NotConfirmed, text),
        SubmitError::InvalidPayload { invalid, .. } => unfit(invalid, text),
        SubmitError::NotOffered(_) => Problem::field("/durability", text),
        SubmitError::Payload(_) | SubmitError::TooLarge { .. } => Problem::field("/payload", text),
        SubmitError::TooManyFields { .. } | SubmitError::Header(_) => Problem::field("/headers", text),
        SubmitError::DerivedId { .. } => Problem::field("/id", text),
        SubmitError::Chain { .. } | SubmitError::ChainTooLarge { .. } => Problem::field("/then", text),
        SubmitError::Contended { .. } | SubmitError::Refused { .. } => Problem::conflict(text),
        _ => Problem::new(ProblemKind::JobNotValid, text),
    }
}

/// Converts the error of a submission of a job of this type. A payload of another type is that of a job that follows.
pub(super) fn refused_as(own: &str, error: &SubmitError) -> Problem {
    if let SubmitError::InvalidPayload { job_type, .. } = error
        && job_type.as_str() != own
    {
        return Problem::field("/then", error.to_string());
    }
    refused(error)
}

/// Names the fields of a payload that do not fit its schema.
pub(super) fn unfit(invalid: &InvalidPayload, detail: String) -> Problem {
    let problems = invalid.problems.iter();
    let wrong =
        problems.map(|problem| FieldError::new(format!("/payload{}", problem.pointer), &*problem.reason));
    Problem::fields(wrong.collect(), detail)
}
