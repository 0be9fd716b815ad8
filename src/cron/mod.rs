//! Recurring jobs: what they are, and which of their ticks are due between two instants. Pure: no clock, no chance, no
//! Redis. (A time zone's rules are read once, when its name is parsed.)
//!
//! An [`Expression`] in a [`Zone`] is a [`Schedule`], which knows the next instant after any other. An [`Entry`] adds
//! what to submit then, and what becomes of ticks that nobody was there for ([`Missed`]). How far it has come is its
//! [`Progress`]. `maintenance/cron.rs` asks what is [`Due`] and submits it.

mod entry;
mod expression;
mod missed;
mod progress;
mod schedule;

pub use entry::{Entry, MAX_PAYLOAD_BYTES, Source};
pub use expression::Expression;
pub use missed::{Due, IN_TIME, LATE, MAX_CATCH_UP, Missed};
pub use progress::Progress;
pub use schedule::{Schedule, Zone};

/// Why something is not a recurring job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// One field of the expression.
    #[error("{expression:?} is no cron expression: the {field} {text:?} (column {column}): {reason}")]
    Field {
        /// The whole expression.
        expression: String,
        /// Which field, in words.
        field: &'static str,
        /// What stands there.
        text: String,
        /// Where it begins; the first character is 1.
        column: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The expression as a whole.
    #[error("{expression:?} is no cron expression: {reason}")]
    Expression {
        /// The expression.
        expression: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The time zone.
    #[error("{name:?} is no time zone that is known here; names are like Europe/Berlin or UTC")]
    Zone {
        /// Its name.
        name: String,
    },
    /// A name.
    #[error(transparent)]
    Name(#[from] crate::job::InvalidName),
    /// The payload.
    #[error("{0}")]
    Payload(String),
    /// Bytes in Redis that are no entry.
    #[error("what is stored is no recurring job: {0}")]
    Stored(String),
}

impl Invalid {
    /// The expression and, below it, a mark under what is wrong; `None` where no single place is.
    pub fn pointed(&self) -> Option<String> {
        let Self::Field { expression, text, column, .. } = self else { return None };
        let gap = " ".repeat(column.saturating_sub(1));
        Some(format!("{expression}\n{gap}{}", "^".repeat(text.chars().count().max(1))))
    }
}
