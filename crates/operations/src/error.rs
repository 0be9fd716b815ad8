//! Why an operation was not carried out.

use std::borrow::Cow;

use streamfleet::job::InvalidPayload;
use streamfleet::{ErrorClass, RedisError};

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
    /// The database does not answer, or refuses. Nothing was done.
    #[error("{what}")]
    Database {
        /// What was not done.
        what: String,
        /// What the database or the connection says.
        #[source]
        error: streamfleet_sql::Error,
    },
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

    /// Says what Redis may or may not have done. If it certainly has done nothing, says so instead, and what to do.
    pub(crate) fn unsure(what: impl Into<String>) -> impl FnOnce(RedisError) -> Self {
        let what = what.into();
        move |error| Self::Redis { what: why_nothing(&error).map_or(what, str::to_owned), error }
    }

    /// Whether something may have been changed although it failed: an answer may be lost.
    pub(crate) fn may_have_run(&self) -> bool {
        matches!(self, Self::Redis { error, .. } if error.may_have_run())
    }
}

/// Why Redis has certainly done nothing, and what to do; `None` if it may have done something. For these reasons, Redis refuses the
/// first write of a script, and none after it.
fn why_nothing(error: &RedisError) -> Option<&'static str> {
    let RedisError::Refused { class, detail, .. } = error else {
        return None;
    };
    let word = detail.split([' ', ':']).next().unwrap_or_default();
    match (class, word) {
        (ErrorClass::Full, _) => Some(
            "Redis is full: nothing was begun or changed; raise its maxmemory, or make room (streamfleet queues purge, or dead drop), \
             and try again",
        ),
        (_, "READONLY") => Some(
            "this Redis accepts no writes, because it is a replica: nothing was begun or changed; try again after a failover, or check \
             the address",
        ),
        (_, "MISCONF") => Some(
            "Redis accepts no writes, because it cannot save them: nothing was begun or changed; see its log and its disk, and try again",
        ),
        (_, "NOPERM" | "NOAUTH" | "WRONGPASS") => Some(
            "the login of Redis may not do this: nothing was begun or changed; `streamfleet check` names the rights that it lacks",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_redis_refused_before_its_first_write_is_certain() {
        let what = |detail: &str| {
            Error::unsure("it may have begun")(RedisError::refused("task_put", detail.to_owned())).to_string()
        };
        for (detail, why) in [
            ("OOM command not allowed when used memory > 'maxmemory'.", "Redis is full: nothing"),
            ("ERR Error running script: OOM command not allowed when used memory", "Redis is full: nothing"),
            ("READONLY You can't write against a read only replica.", "this Redis accepts no writes"),
            ("MISCONF Redis is configured to save RDB snapshots", "Redis accepts no writes"),
            ("NOPERM User bob has no permissions to run the 'evalsha' command", "the login of Redis"),
        ] {
            assert!(what(detail).starts_with(why), "{detail}: {}", what(detail));
        }
        // The script may have written before.
        for detail in ["ERR ACL failure in script: No permissions to access a key", "WRONGTYPE Operation"] {
            assert_eq!(what(detail), "it may have begun", "{detail}");
        }
    }
}
