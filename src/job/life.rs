//! The life of a job: from its acceptance or its replay to its end. Several lives may have one id; what must not touch
//! another life compares this token.

use std::fmt;
use std::str::FromStr;

use super::{EntryId, InvalidName, JobId, Lane};

/// The token of one life of a job. It is the id that the life's first entry would give a job, unless that entry brought a
/// token along; every further entry of the life carries it in the field `life`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Life(JobId);

impl Life {
    /// The life that begins with this entry.
    pub fn of_entry(entry: EntryId, lane: Lane) -> Self {
        Self(JobId::derived(entry, lane))
    }

    /// The life of an entry that an older version wrote: it told lives apart by when they began.
    pub(super) fn of_time(created_ms: u64) -> Self {
        Self(created_ms.to_string().parse().expect("digits are an id"))
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
