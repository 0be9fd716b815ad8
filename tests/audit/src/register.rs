//! What was submitted in an audit, and what people did. The audit keeps this itself, so no fault affects it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::diary::Span;

/// A submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub kind: Kind,
    /// The id that its producer gave it.
    pub id: Option<String>,
    pub reply: Reply,
    /// When it was first sent, by the monotonic clock in nanoseconds.
    pub at: u64,
    /// The earliest time at which it may start, by the wall clock.
    pub not_before_ms: u64,
    /// The key that it holds while it runs.
    pub key: Option<String>,
}

/// A job that follows the end of others, once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follow {
    pub mark: String,
    /// The jobs whose ends are all awaited.
    pub of: Vec<String>,
    /// Whether it waits for their death instead of their success.
    pub on_death: bool,
}

/// How the job is meant to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// It is done.
    Done,
    /// It fails each time.
    Exhausted,
    /// It never ends on its own, and is cut off each time.
    Hanging,
    /// It fails for good.
    Fatal,
    /// Fatal, then replayed, then done.
    Mended,
    /// Fatal, then its letter is dropped.
    Dropped,
    /// Made of steps, one of which must not run twice. It is done, or a person decides.
    Gift,
    /// A person cancels it.
    Cancelled,
    /// It has a unique key.
    Unique,
}

/// The reply that the producer got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    Accepted,
    /// The reply was lost.
    Unknown,
    /// It was not executed.
    Refused,
    /// Another job has its id or key, so this one was not created.
    Elsewhere,
}

/// What a person did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// `is_done` if no worker ran it; `asked` and `answered` are monotonic.
    Cancelled {
        id: String,
        is_done: bool,
        asked: u64,
        answered: u64,
    },
    /// May have happened even if the reply was lost.
    Replayed {
        generation: String,
    },
    /// Allows a step to run once more.
    RunAgain {
        id: String,
    },
    Dropped {
        generation: String,
    },
    /// A letter was deleted by hand after it was replayed: the record of the runs before goes with it, unless the new one has begun.
    Deleted {
        generation: String,
    },
    /// A letter stayed although it was replayed: Redis did not say that it got the new entry, or that it deleted the letter.
    Abandoned {
        letter: String,
    },
}

impl Deed {
    /// Whether it was done to the job of this id, or to one of these runs' generations.
    pub fn is_about(&self, own: &str, spans: &[&Span]) -> bool {
        match self {
            Self::Cancelled { id, .. } | Self::RunAgain { id } => id == own,
            Self::Replayed { generation } | Self::Dropped { generation } | Self::Deleted { generation } => {
                generation == own || spans.iter().any(|span| span.mark == *generation)
            }
            Self::Abandoned { .. } => false,
        }
    }
}

/// A job to cancel at some point.
#[derive(Clone, Debug)]
pub struct ToCancel {
    pub at: Instant,
    pub id: String,
}

/// Everything that the audit itself records.
#[derive(Default)]
pub struct Register {
    sent: Mutex<BTreeMap<String, Sent>>,
    deeds: Mutex<Vec<Deed>>,
    follows: Mutex<Vec<Follow>>,
    pub to_cancel: Mutex<Vec<ToCancel>>,
    complaints: Mutex<Vec<String>>,
    /// What each order is called, by its number.
    names: Mutex<Vec<&'static str>>,
    accepted: AtomicU64,
}

/// A copy of the register, taken once nothing more is written.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    pub sent: BTreeMap<String, Sent>,
    pub deeds: Vec<Deed>,
    pub follows: Vec<Follow>,
    pub complaints: Vec<String>,
    pub names: Vec<&'static str>,
}

impl Register {
    /// Notes the name of the next order and returns its number, from 1.
    pub fn ordered(&self, name: &'static str) -> usize {
        let mut names = self.names.lock().unwrap();
        names.push(name);
        names.len()
    }

    /// Returns how many submissions were accepted.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::SeqCst)
    }

    pub fn sent(&self, mark: &str, sent: Sent) {
        let is_accepted = sent.reply == Reply::Accepted;
        let before = self.sent.lock().unwrap().insert(mark.to_owned(), sent);
        if is_accepted && before.is_none_or(|before| before.reply != Reply::Accepted) {
            self.accepted.fetch_add(1, Ordering::SeqCst);
        }
    }

    pub fn kind_of(&self, generation: &str) -> Option<Kind> {
        self.sent.lock().unwrap().get(generation).map(|sent| sent.kind)
    }

    pub fn follows(&self, follow: Follow) {
        self.follows.lock().unwrap().push(follow);
    }

    pub fn did(&self, deed: Deed) {
        self.deeds.lock().unwrap().push(deed);
    }

    pub fn has_done(&self, deed: &Deed) -> bool {
        self.deeds.lock().unwrap().contains(deed)
    }

    /// Notes an answer that cannot be true, or a worker that misbehaved.
    pub fn complain(&self, complaint: String) {
        self.complaints.lock().unwrap().push(complaint);
    }

    pub fn entries(&self) -> Entries {
        Entries {
            sent: self.sent.lock().unwrap().clone(),
            deeds: self.deeds.lock().unwrap().clone(),
            follows: self.follows.lock().unwrap().clone(),
            complaints: self.complaints.lock().unwrap().clone(),
            names: self.names.lock().unwrap().clone(),
        }
    }
}

impl Entries {
    /// Returns the name of the generation of a run or a letter: its id if that belongs to one generation, otherwise its mark.
    pub fn generation<'a>(&self, mark: &'a str, id: &'a str) -> &'a str {
        if self.sent.contains_key(id) { id } else { mark }
    }

    /// Returns what the report calls a submission with this mark.
    pub fn name_of(&self, mark: &str) -> &'static str {
        let digits: String = mark.chars().skip(1).take_while(char::is_ascii_digit).collect();
        let nth = digits.parse::<usize>().ok().and_then(|nth| nth.checked_sub(1));
        nth.and_then(|nth| self.names.get(nth).copied()).unwrap_or("other")
    }

    pub fn ids_to_run_again(&self) -> BTreeMap<&str, usize> {
        let mut ids = BTreeMap::new();
        for deed in &self.deeds {
            if let Deed::RunAgain { id } = deed {
                *ids.entry(id.as_str()).or_default() += 1;
            }
        }
        ids
    }

    pub fn replays(&self) -> BTreeMap<&str, usize> {
        let mut generations = BTreeMap::new();
        for deed in &self.deeds {
            if let Deed::Replayed { generation } = deed {
                *generations.entry(generation.as_str()).or_default() += 1;
            }
        }
        generations
    }

    pub fn dropped(&self) -> BTreeSet<&str> {
        let dropped = self.deeds.iter().filter_map(|deed| match deed {
            Deed::Dropped { generation } => Some(generation.as_str()),
            Deed::Cancelled { .. }
            | Deed::Replayed { .. }
            | Deed::RunAgain { .. }
            | Deed::Deleted { .. }
            | Deed::Abandoned { .. } => None,
        });
        dropped.collect()
    }

    /// Whether a letter may be there although its job was replayed.
    pub fn was_abandoned(&self, letter: &str) -> bool {
        self.deeds.contains(&Deed::Abandoned { letter: letter.to_owned() })
    }
}
