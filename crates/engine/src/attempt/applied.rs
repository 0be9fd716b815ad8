//! What a settling script says about one attempt.

use crate::Answer;
use crate::client::error::Error;

/// The outcome of a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// The settlement took effect.
    Moved,
    /// Another process settled this entry: nothing was changed.
    Stale,
    /// An attempt of the job succeeded after it had been given up; its retry never starts.
    Late,
    /// The job's cancellation was requested, so it is cancelled and does not run again.
    Cancelled,
    /// The entry was already settled, and no trace of this generation is left: a plain acknowledgement settled it.
    Untraced,
}

impl Applied {
    /// Reads the script's answer about one job.
    pub(crate) fn of(answer: Answer) -> Result<Self, Error> {
        match answer.status {
            0 => Ok(Self::Stale),
            1 => Ok(Self::Moved),
            2 => Ok(Self::Late),
            4 => Ok(Self::Untraced),
            _ => Err(Error::contract("settle", answer)),
        }
    }
}
