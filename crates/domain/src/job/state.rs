//! Where a job is in its generation, and which state may follow which.

use std::str::FromStr;

/// A job's state. The last three are final, unless a person replays a dead job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// In its stream, not yet delivered.
    Waiting,
    /// Delivered to a worker.
    Running,
    /// In the delayed set, because it should run later.
    Scheduled,
    /// In the delayed set, because an attempt failed or its worker was lost.
    Retrying,
    /// Finished successfully.
    Done,
    /// In the dead stream.
    Dead,
    /// Cancelled by a person, or dropped by its handler.
    Cancelled,
}

variants! {
    /// Returns the state's name, as used in records and on the command line.
    State: Display {
        Waiting = "waiting",
        Running = "running",
        Scheduled = "scheduled",
        Retrying = "retrying",
        Done = "done",
        Dead = "dead",
        Cancelled = "cancelled",
    }
}

impl State {
    /// Returns true if the job will not run again unless a person replays it.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Dead | Self::Cancelled)
    }

    /// Returns true if a single transition may lead from this state to `next`.
    pub fn may_become(self, next: Self) -> bool {
        match self {
            Self::Waiting => matches!(next, Self::Running | Self::Cancelled),
            Self::Running => next != Self::Running,
            // An attempt whose entry was claimed may still succeed, and end the job before its retry starts.
            Self::Retrying => matches!(next, Self::Waiting | Self::Done | Self::Cancelled),
            Self::Scheduled => matches!(next, Self::Waiting | Self::Cancelled),
            Self::Dead => next == Self::Waiting,
            Self::Done | Self::Cancelled => false,
        }
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
    fn nothing_follows_a_final_state_but_a_replay() {
        for state in State::ALL.into_iter().filter(|state| state.is_final()) {
            for next in State::ALL {
                let replay = state == State::Dead && next == State::Waiting;
                assert_eq!(state.may_become(next), replay, "{state} to {next}");
            }
        }
    }

    #[test]
    fn every_state_is_read_back_from_its_name() {
        for state in State::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
        }
    }
}
