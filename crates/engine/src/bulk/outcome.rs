//! What an operation on many jobs does to one of them.

use super::move_jobs::KeptBack;
use crate::Cancellation;
use crate::attempt::cancel::Cancelled;

/// What became of one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Changed,
    Requested {
        was_asked: bool,
    },
    /// It has ended meanwhile, or is not where it was.
    Gone,
    Kept(KeptBack),
    /// Redis refused this one alone.
    Failed(String),
}

impl Outcome {
    /// Reads what a script says about one job; `None` if it was left for another call.
    pub(super) fn read(reply: &str) -> Option<Self> {
        match reply {
            "later" => None,
            "done" | "moved" => Some(Self::Changed),
            "gone" => Some(Self::Gone),
            other => Some(KeptBack::named(other).map_or_else(|| Self::Failed(other.to_owned()), Self::Kept)),
        }
    }
}

impl From<Cancelled> for Outcome {
    fn from(cancelled: Cancelled) -> Self {
        match cancelled.outcome {
            Cancellation::Done => Self::Changed,
            Cancellation::Requested => Self::Requested { was_asked: cancelled.was_asked },
            Cancellation::Ended(_) | Cancellation::Unknown => Self::Gone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_of_the_scripts_is_understood() {
        for why in KeptBack::ALL {
            assert_eq!(Outcome::read(why.as_str()), Some(Outcome::Kept(why)));
        }
        assert_eq!(["moved", "done"].map(Outcome::read), [Some(Outcome::Changed), Some(Outcome::Changed)]);
        assert_eq!(Outcome::read("later"), None);
        assert_eq!(Outcome::read("WRONGTYPE x"), Some(Outcome::Failed("WRONGTYPE x".to_owned())));
    }
}
