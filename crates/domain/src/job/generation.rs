//! The generation of a job, from its acceptance or replay to its end. Several generations may share one id; code that must not
//! touch another generation compares this token.

use std::fmt;
use std::str::FromStr;

use super::{EntryId, InvalidName, JobId, Lane};

/// The token of one generation of a job. It is the id that the generation's first entry would give a job, unless that entry already
/// carried a token. Every further entry of the generation carries it in the field `life`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Generation(JobId);

impl Generation {
    /// Returns the generation that begins with this entry.
    pub fn of_entry(entry: EntryId, lane: Lane) -> Self {
        Self(JobId::derived(entry, lane))
    }

    /// Returns true if the token is also the job's id, so that nobody chose the id: it was derived from the generation's first
    /// entry, or drawn for a job that needed one before.
    pub fn gave(&self, id: &JobId) -> bool {
        self.0 == *id
    }

    /// Returns the generation of an entry written by an older version, which distinguished generations by their start times.
    pub(super) fn of_time(created_ms: u64) -> Self {
        Self(created_ms.to_string().parse().expect("digits form a valid id"))
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl FromStr for Generation {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}
