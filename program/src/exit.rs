//! What the program's exit codes mean. Scripts rely on them, so they are documented in docs/exit-codes.md and tested.

use std::process::ExitCode;

use streamfleet::RedisError;
use streamfleet::SubmitError;
use streamfleet_operations as operations;
use streamfleet_service as service;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command did what was asked.
    Done,
    /// An error that has no code of its own.
    Failed,
    /// The command line or the configuration is wrong. (This is also clap's code.)
    Usage,
    /// Redis is unreachable, or refuses the request.
    Redis,
    /// The requested object does not exist.
    NotFound,
    /// A check found errors, or an import refused rows.
    Unfit,
    /// The wait ended before the job or the task did, or before the worker was drained; or an import was stopped.
    Unfinished,
    /// The queue accepts no more jobs for now. Only a bulk submission may have submitted some.
    Full,
    /// The job is accepted, but the requested durability is not confirmed.
    Unconfirmed,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Redis => 3,
            Exit::NotFound => 4,
            Exit::Unfit => 5,
            Exit::Unfinished => 6,
            Exit::Full => 7,
            Exit::Unconfirmed => 8,
        })
    }
}

impl Exit {
    /// The code for an error that ended a command.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        if error.downcast_ref::<super::Wrong>().is_some() {
            return Self::Usage;
        }
        match error.downcast_ref() {
            Some(operations::Error::Invalid { .. } | operations::Error::Unfit { .. }) => return Self::Usage,
            Some(operations::Error::NotFound(_)) => return Self::NotFound,
            Some(_) | None => {}
        }
        match error.chain().find_map(|cause| cause.downcast_ref()) {
            Some(SubmitError::Full { .. }) => return Self::Full,
            Some(SubmitError::Unconfirmed { .. }) => return Self::Unconfirmed,
            Some(_) | None => {}
        }
        let of_service = match error.downcast_ref() {
            Some(service::Error::Configuration(_)) => return Self::Usage,
            Some(service::Error::Redis(error)) => Some(error),
            Some(_) | None => None,
        };
        match of_service.or_else(|| error.chain().find_map(|cause| cause.downcast_ref::<RedisError>())) {
            // An invalid address is a mistake in the configuration.
            Some(RedisError::Address(_)) => Self::Usage,
            Some(_) => Self::Redis,
            None => Self::Failed,
        }
    }
}
