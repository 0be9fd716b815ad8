//! Why an operation was not carried out.

use std::borrow::Cow;

use streamfleet::RedisError;
use streamfleet::job::InvalidPayload;

/// Why an operation was not carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A field of the input cannot be used. Nothing was done.
    #[error("{why}")]
    Invalid {
        /// The field, as the body of the API names it, such as `rate` or `set/1`; `body` for the input as a whole.
        field: Cow<'static, str>,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// What was named does not exist. Nothing was done.
    #[error("{0}")]
    NotFound(String),
    /// It is not in the state that the operation needs. Nothing was done.
    #[error("{0}")]
    Conflict(String),
    /// Somebody else has changed it since it was read. Nothing was done.
    #[error("somebody else has changed it since it was read: nothing was done")]
    Changed,
    /// A payload does not fit the schema of its type. Nothing was done.
    #[error("{why}")]
    Unfit {
        /// What is wrong, in words.
        why: String,
        /// What is wrong with which value.
        invalid: InvalidPayload,
    },
    /// It was stopped before it changed anything. Nothing was done.
    #[error("interrupted: nothing was changed")]
    Stopped,
    /// It is probably a mistake: somebody must confirm it. Nothing was done.
    #[error("{0}")]
    Doubtful(String),
    /// Redis does not answer, or refuses. The message says what was not done, or may be done.
    #[error("{what}")]
    Redis {
        /// What was not done, or may be done.
        what: String,
        /// What Redis or the connection says.
        #[source]
        error: RedisError,
    },
}

impl Error {
    /// Says that a field of the input cannot be used.
    pub fn invalid(field: impl Into<Cow<'static, str>>, why: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), why: why.into() }
    }

    /// Says what Redis did not do.
    pub fn redis(what: impl Into<String>) -> impl FnOnce(RedisError) -> Self {
        let what = what.into();
        move |error| Self::Redis { what, error }
    }

    /// Whether something may have been changed although it failed: an answer may be lost.
    pub(crate) fn may_have_run(&self) -> bool {
        matches!(self, Self::Redis { error, .. } if error.may_have_run())
    }
}
