//! How a reader makes its next read.

use super::order::per_lane;

/// How to make the next read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// There was little to read: wait for any lane, or stand by if enough others wait.
    Wait,
    /// The reader was called, or has just been given something: wait, whatever the others do.
    Attend,
    /// There is a backlog: read lane by lane, so that priorities hold and reads are full.
    Drain,
}

impl Mode {
    /// Returns how to continue after a read that returned this many of the entries that it wanted.
    pub(super) fn after(self, read: usize, wanted: usize) -> Self {
        match self {
            _ if read >= per_lane(wanted) => Self::Drain,
            Self::Wait | Self::Attend if read > 0 => Self::Attend,
            // Also after a backlog, when all who drained it come back at once.
            Self::Drain | Self::Wait | Self::Attend => Self::Wait,
        }
    }
}
