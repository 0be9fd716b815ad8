//! How an attempt ended.

use crate::job::DeadReason;

/// How an attempt ended, as named in metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// The job is done.
    Succeeded,
    /// The job will be retried.
    Retried,
    /// The job is in the dead stream.
    Dead(DeadReason),
    /// The job runs again later, because the handler or the producer said so.
    Snoozed,
    /// The job was given back unfinished.
    Interrupted,
    /// The job was cancelled, by a person or by its handler.
    Cancelled,
}

impl Ending {
    /// Returns true if the job will not run again unless a person replays it.
    pub fn is_final(self) -> bool {
        match self {
            Self::Succeeded | Self::Dead(_) | Self::Cancelled => true,
            Self::Retried | Self::Snoozed | Self::Interrupted => false,
        }
    }

    /// Returns the value of the metrics' `outcome` label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Retried => "retried",
            Self::Dead(DeadReason::Expired) => "expired",
            Self::Dead(_) => "dead",
            Self::Snoozed => "snoozed",
            Self::Interrupted => "interrupted",
            Self::Cancelled => "cancelled",
        }
    }
}
