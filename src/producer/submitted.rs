//! The answer to a submission.

use crate::job::{JobId, State};

/// The outcome of a submission; see the [example](crate::Producer::submit_or_find).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Submitted {
    /// The id of the job that exists now.
    pub id: JobId,
    /// Whether the job is new.
    pub accepted: Accepted,
}

/// Whether a submission created a job; see the [example](crate::Producer::submit_or_find).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Accepted {
    /// The job is new.
    New,
    /// A job with the same id or the same unique key already existed, in this state, and was left as it is.
    Existing(State),
    /// The job is new, and this one, which held the unique key, was cancelled.
    Replacing(JobId),
    /// No job was created: the job that holds the unique key got this one's payload and time.
    Debounced,
}

impl Submitted {
    /// The state of the job that already existed; `None` if this one was accepted.
    pub fn existing(&self) -> Option<State> {
        match &self.accepted {
            Accepted::New | Accepted::Replacing(_) | Accepted::Debounced => None,
            Accepted::Existing(state) => Some(*state),
        }
    }

    /// The job that held the unique key and was cancelled in favor of this one.
    pub fn replaced(&self) -> Option<&JobId> {
        match &self.accepted {
            Accepted::Replacing(job) => Some(job),
            Accepted::New | Accepted::Existing(_) | Accepted::Debounced => None,
        }
    }
}
