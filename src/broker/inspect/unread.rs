//! Keys that cannot be read, because somebody has put something of another type there. Each costs its own figures and no
//! other.

use std::fmt;

use fred::types::{Key, Value};
use serde::Serialize;

use crate::broker::client::decode;
use crate::broker::client::error::{Class, Error};
use crate::job::Lane;

/// A part of a queue whose figures are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// The delayed jobs.
    Delayed,
    /// The dead letters.
    Dead,
    /// The consumer that does the chores.
    Leader,
    /// One lane: what waits and what runs in it.
    Lane(Lane),
    /// The recurring jobs.
    Cron,
    /// All of it.
    Queue,
}

/// A key that cannot be read, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unread {
    /// Whose figures are missing.
    #[serde(skip)]
    pub part: Part,
    /// The key; of a whole queue, what all its keys begin with, and `*`.
    pub key: String,
    /// What Redis said.
    pub error: String,
}

impl Unread {
    /// What a script says of keys: the number of each in KEYS, and the error. `parts` are what its first keys are.
    pub(in crate::broker) fn read(told: &Value, parts: &[Part], keys: &[Key]) -> Vec<Self> {
        let Value::Array(told) = told else { return Vec::new() };
        let of = |pair: &[Value]| {
            let at = usize::try_from(decode::number(&pair[0])?.checked_sub(1)?).ok()?;
            let key = keys.get(at)?.as_str_lossy().into_owned();
            Some(Self { part: *parts.get(at)?, key, error: decode::text(&pair[1]) })
        };
        told.chunks_exact(2).filter_map(of).collect()
    }

    /// The same as an error.
    pub(crate) fn to_error(&self, command: &'static str) -> Error {
        Error::Refused { command, class: Class::Configuration, detail: self.to_string() }
    }

    /// True where one of these is about this part.
    pub fn is_among(part: Part, unread: &[Self]) -> bool {
        unread.iter().any(|unread| unread.part == part)
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} cannot be read: {}", self.key, self.error)
    }
}
