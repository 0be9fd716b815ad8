//! The answer to a submission.

use crate::job::{JobId, State};

/// What became of a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Submitted {
    /// The job that is there now.
    pub id: JobId,
    /// Whether it is a new one.
    pub accepted: Accepted,
}

/// Whether a submission made a job.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Accepted {
    /// It did.
    New,
    /// The job was there already, in this state, and was left as it is: it has the same id, or holds the unique key.
    Existing(State),
    /// It did, and this one, which held the unique key, is cancelled.
    Replacing(JobId),
    /// It did not: the job that holds the unique key got its payload and time.
    Debounced,
}

impl Submitted {
    /// The state of the job that was there already; `None` for a new one.
    pub fn existing(&self) -> Option<State> {
        match &self.accepted {
            Accepted::New | Accepted::Replacing(_) | Accepted::Debounced => None,
            Accepted::Existing(state) => Some(*state),
        }
    }

    /// The job that held the unique key and was cancelled for this one.
    pub fn replaced(&self) -> Option<&JobId> {
        match &self.accepted {
            Accepted::Replacing(job) => Some(job),
            Accepted::New | Accepted::Existing(_) | Accepted::Debounced => None,
        }
    }
}
