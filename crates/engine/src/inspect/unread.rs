//! Keys that cannot be read because they hold something of another type. Each affects only its own figures.

use std::fmt;

use fred::types::{Key, Value};
use serde::Serialize;

use crate::client::decode;
use crate::client::error::{Class, Error};
use crate::job::Lane;

/// A part of a queue whose figures are missing; see the [example](crate::admin::QueueSnapshot).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// The delayed jobs.
    Delayed,
    /// The dead letters.
    Dead,
    /// The leader's lease.
    Leader,
    /// One lane: its waiting and running jobs.
    Lane(Lane),
    /// The recurring jobs.
    Cron,
    /// The jobs that wait in waiting lists.
    Waitlists,
    /// The rules of the gates.
    Gates,
    /// The whole queue.
    Queue,
}

/// A key that cannot be read, and why; see the [example](crate::admin::QueueSnapshot).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Unread {
    /// The part whose figures are missing.
    #[serde(skip)]
    pub part: Part,
    /// The key; for a whole queue, the prefix of all its keys and `*`.
    pub key: String,
    /// The error that Redis returned.
    pub error: String,
}

impl Unread {
    /// Creates what is unread of this part.
    #[doc(hidden)]
    pub fn new(part: Part, key: impl Into<String>, error: impl Into<String>) -> Self {
        Self { part, key: key.into(), error: error.into() }
    }

    /// Reads the unreadable keys from a script's answer: the number of each in `KEYS`, and the error. `parts` are the
    /// parts of the queue behind its first keys.
    #[doc(hidden)]
    pub fn read(answer: &Value, parts: &[Part], keys: &[Key]) -> Vec<Self> {
        let Value::Array(answer) = answer else { return Vec::new() };
        let of = |pair: &[Value]| {
            let at = usize::try_from(decode::number(&pair[0])?.checked_sub(1)?).ok()?;
            let key = keys.get(at)?.as_str_lossy().into_owned();
            Some(Self { part: *parts.get(at)?, key, error: decode::text(&pair[1]) })
        };
        answer.chunks_exact(2).filter_map(of).collect()
    }

    /// Converts it to an error.
    #[doc(hidden)]
    pub fn to_error(&self, command: &'static str) -> Error {
        Error::Refused { command, class: Class::Configuration, detail: self.to_string() }
    }

    /// True if one of these keys is about this part.
    pub fn is_among(part: Part, unread: &[Self]) -> bool {
        unread.iter().any(|unread| unread.part == part)
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} cannot be read: {}", self.key, self.error)
    }
}
