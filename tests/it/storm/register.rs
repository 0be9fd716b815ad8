//! What was submitted in a storm, and what people did: kept by the test, which nothing hits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Instant;

use super::diary::Span;

/// A submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) kind: Kind,
    /// The id that its producer gave it.
    pub(super) id: Option<String>,
    pub(super) reply: Reply,
    /// It may not start before, by the wall clock.
    pub(super) not_before_ms: u64,
    /// The key that it holds while it runs.
    pub(super) key: Option<String>,
}

/// A job that follows the end of others, once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Follow {
    pub(super) mark: String,
    /// All of them are awaited.
    pub(super) of: Vec<String>,
    /// Their death in place of their success.
    pub(super) on_death: bool,
}

/// How the job is meant to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// It is done.
    Done,
    /// It fails each time.
    Exhausted,
    /// It fails for good.
    Fatal,
    /// Fatal, then replayed, then done.
    Mended,
    /// Fatal, then its letter is dropped.
    Dropped,
    /// Made of steps, one of which must not run twice. It is done, or a person decides.
    Gift,
    /// Somebody wants it cancelled.
    Cancelled,
    /// It has a unique key.
    Unique,
}

/// What the producer was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Accepted,
    /// The answer got lost.
    Unknown,
    /// It was not executed.
    Refused,
    /// Another job has its id or key; this one is none.
    Elsewhere,
}

/// What a person did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// `is_done` where nobody ran it; `asked` and `answered` are monotonic.
    Cancelled {
        id: String,
        is_done: bool,
        asked: u64,
        answered: u64,
    },
    /// May have happened where the answer was lost.
    Replayed {
        life: String,
    },
    /// A step may be run once more by this.
    RunAgain {
        id: String,
    },
    Dropped {
        life: String,
    },
}

impl Deed {
    /// Whether it was done to the job of this id, or to one of these runs' lives.
    pub(super) fn is_about(&self, own: &str, spans: &[&Span]) -> bool {
        match self {
            Self::Cancelled { id, .. } | Self::RunAgain { id } => id == own,
            Self::Replayed { life } | Self::Dropped { life } => {
                life == own || spans.iter().any(|span| span.mark == *life)
            }
        }
    }
}

/// A job that is to be cancelled at some time.
#[derive(Clone, Debug)]
pub(super) struct ToCancel {
    pub(super) at: Instant,
    pub(super) id: String,
}

/// All of it.
#[derive(Default)]
pub(super) struct Register {
    sent: Mutex<BTreeMap<String, Sent>>,
    deeds: Mutex<Vec<Deed>>,
    follows: Mutex<Vec<Follow>>,
    pub(super) to_cancel: Mutex<Vec<ToCancel>>,
    complaints: Mutex<Vec<String>>,
}

/// The register when nobody writes any more.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries {
    pub(super) sent: BTreeMap<String, Sent>,
    pub(super) deeds: Vec<Deed>,
    pub(super) follows: Vec<Follow>,
    pub(super) complaints: Vec<String>,
}

impl Register {
    pub(super) fn sent(&self, mark: &str, sent: Sent) {
        self.sent.lock().unwrap().insert(mark.to_owned(), sent);
    }

    pub(super) fn kind_of(&self, life: &str) -> Option<Kind> {
        self.sent.lock().unwrap().get(life).map(|sent| sent.kind)
    }

    pub(super) fn follows(&self, follow: Follow) {
        self.follows.lock().unwrap().push(follow);
    }

    pub(super) fn did(&self, deed: Deed) {
        self.deeds.lock().unwrap().push(deed);
    }

    pub(super) fn has_done(&self, deed: &Deed) -> bool {
        self.deeds.lock().unwrap().contains(deed)
    }

    /// Something was answered that is false.
    pub(super) fn complain(&self, complaint: String) {
        self.complaints.lock().unwrap().push(complaint);
    }

    pub(super) fn entries(&self) -> Entries {
        Entries {
            sent: self.sent.lock().unwrap().clone(),
            deeds: self.deeds.lock().unwrap().clone(),
            follows: self.follows.lock().unwrap().clone(),
            complaints: self.complaints.lock().unwrap().clone(),
        }
    }
}

impl Entries {
    /// The name of the life of a run or a letter: its id where that is one life's, else its mark.
    pub(super) fn life<'a>(&self, mark: &'a str, id: &'a str) -> &'a str {
        if self.sent.contains_key(id) { id } else { mark }
    }

    pub(super) fn ids_to_run_again(&self) -> BTreeMap<&str, usize> {
        let mut ids = BTreeMap::new();
        for deed in &self.deeds {
            if let Deed::RunAgain { id } = deed {
                *ids.entry(id.as_str()).or_default() += 1;
            }
        }
        ids
    }

    pub(super) fn replays(&self) -> BTreeMap<&str, usize> {
        let mut lives = BTreeMap::new();
        for deed in &self.deeds {
            if let Deed::Replayed { life } = deed {
                *lives.entry(life.as_str()).or_default() += 1;
            }
        }
        lives
    }

    pub(super) fn dropped(&self) -> BTreeSet<&str> {
        let dropped = self.deeds.iter().filter_map(|deed| match deed {
            Deed::Dropped { life } => Some(life.as_str()),
            Deed::Cancelled { .. } | Deed::Replayed { .. } | Deed::RunAgain { .. } => None,
        });
        dropped.collect()
    }
}
