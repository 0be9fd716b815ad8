//! The life of a job, from its acceptance or replay to its end. Several lives may share one id; code that must not
//! touch another life compares this token.

use std::fmt;
use std::str::FromStr;

use super::{EntryId, InvalidName, JobId, Lane};

/// The token of one life of a job. It is the id that the life's first entry would give a job, unless that entry already
/// carried a token. Every further entry of the life carries it in the field `life`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Life(JobId);

impl Life {
    /// Returns the life that begins with this entry.
    pub fn of_entry(entry: EntryId, lane: Lane) -> Self {
        Self(JobId::derived(entry, lane))
    }

    /// Returns true if the token is also the job's id, so that nobody chose the id: it was derived from the life's first
    /// entry, or drawn for a job that needed one before.
    pub fn gave(&self, id: &JobId) -> bool {
        self.0 == *id
    }

    /// Returns the life of an entry written by an older version, which distinguished lives by their start times.
    pub(super) fn of_time(created_ms: u64) -> Self {
        Self(created_ms.to_string().parse().expect("digits form a valid id"))
    }
}

impl fmt::Display for Life {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl FromStr for Life {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}
