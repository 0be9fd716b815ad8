//! What a search asks for, and where it continues.

use std::fmt;
use std::str::FromStr;

use streamfleet_domain::job::{Generation, JobId, QueueName};

use super::Row;
use crate::Error;
use crate::history::{Ending, Key};

/// The most types of a filter, and the most rows of a page.
const TYPES: usize = 16;
const ROWS: usize = 500;

/// Which lives are asked for. All conditions hold at once; those that are empty or absent always hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// The queue.
    pub queue: QueueName,
    /// How they ended.
    pub states: Vec<Ending>,
    /// Their types, at most 16.
    pub types: Vec<String>,
    /// Their id.
    pub id: Option<JobId>,
    /// The fingerprint of their error.
    pub fingerprint: Option<String>,
    /// The version of the user's program that ran their last attempt.
    pub worker_version: Option<String>,
    /// They ended at this time or later, in milliseconds since 1970.
    pub from_ms: Option<u64>,
    /// They ended before this time, in milliseconds since 1970.
    pub to_ms: Option<u64>,
    /// A field of their payload.
    pub key: Option<Key>,
}

impl Filter {
    /// Asks for all lives of a queue.
    pub fn of(queue: QueueName) -> Self {
        Self {
            queue,
            states: Vec::new(),
            types: Vec::new(),
            id: None,
            fingerprint: None,
            worker_version: None,
            from_ms: None,
            to_ms: None,
            key: None,
        }
    }

    pub(super) fn check(&self, limit: usize) -> Result<(), Error> {
        if !(1..=ROWS).contains(&limit) {
            return Err(Error::Input(format!("the limit of a page is {limit}, but must be 1 to {ROWS}")));
        }
        if self.types.len() > TYPES {
            let found = self.types.len();
            return Err(Error::Input(format!(
                "{found} types are asked for, but at most {TYPES} are allowed"
            )));
        }
        Ok(())
    }
}

/// Lives, and where the next ones begin.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Page {
    /// The lives: the latest end first, or, if the filter has a field of the payload, the latest day of creation first.
    pub rows: Vec<Row>,
    /// Where to continue; absent on the last page. A page with fewer rows than asked for, or none, may have it.
    pub next: Option<Cursor>,
}

/// A place between two lives in the order of a search. As text, it is safe to show and to pass on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    pub(super) ms: u64,
    pub(super) life: Generation,
}

/// Why a text is not a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the cursor is not one that a page has returned")]
pub struct InvalidCursor;

impl fmt::Display for Cursor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}~{}", self.ms, self.life)
    }
}

impl FromStr for Cursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (ms, life) = text.split_once('~').ok_or(InvalidCursor)?;
        let ms = ms.parse().map_err(|_| InvalidCursor)?;
        Ok(Self { ms, life: life.parse().map_err(|_| InvalidCursor)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_being_written_and_read() {
        let cursor = Cursor { ms: 5, life: "1796083200000-0-high".parse().unwrap() };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for text in ["", "5", "x~1-0", "5~", "5~a b"] {
            assert_eq!(text.parse::<Cursor>(), Err(InvalidCursor), "{text:?}");
        }
    }

    #[test]
    fn a_filter_is_bounded() {
        let mut filter = Filter::of("q".parse().unwrap());
        assert!(filter.check(500).is_ok());
        assert!(filter.check(0).is_err() && filter.check(501).is_err());
        filter.types = vec!["t".to_owned(); 17];
        assert!(filter.check(1).is_err());
    }
}
