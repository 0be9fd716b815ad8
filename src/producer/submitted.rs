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
    /// The job was there already, in this state, and was left as it is.
    Existing(State),
}

impl Submitted {
    /// The state of the job that was there already; `None` for a new one.
    pub fn existing(&self) -> Option<State> {
        match &self.accepted {
            Accepted::New => None,
            Accepted::Existing(state) => Some(*state),
        }
    }
}
