//! Where a job is in its generation, and which state may follow which.

use std::str::FromStr;

variants! {
    /// A job's state. The last three are final, unless a person replays a dead job.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum State: Display {
        /// In its stream, not yet delivered.
        Waiting = "waiting",
        /// Delivered to a worker.
        Running = "running",
        /// In the delayed set, because it should run later.
        Scheduled = "scheduled",
        /// In the delayed set, because an attempt failed or its worker was lost.
        Retrying = "retrying",
        /// Finished successfully.
        Done = "done",
        /// In the dead stream.
        Dead = "dead",
        /// Cancelled by a person, or dropped by its handler.
        Cancelled = "cancelled",
    }
}

impl State {
    /// Returns true if the job will not run again unless a person replays it.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Dead | Self::Cancelled)
    }
}

impl FromStr for State {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::named(text).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_read_back_from_its_name() {
        for state in State::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
        }
    }
}
