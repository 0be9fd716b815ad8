//! Recurring jobs: what they are, and which of their ticks are due between two instants. Pure: no clock, no randomness,
//! no Redis. (A time zone's rules are read once, when its name is parsed.)
//!
//! An [`Expression`] in a [`Zone`] is a [`Schedule`], which finds the next tick after any instant. An [`Entry`] adds
//! what to submit then, and what to do about missed ticks ([`Missed`]). Its [`Progress`] records how far it has come.
//! `maintenance/cron.rs` asks what is [`Due`] and submits it.

mod entry;
mod expression;
mod missed;
mod progress;
mod schedule;

pub use entry::{Entry, MAX_PAYLOAD_BYTES, Source};
pub use expression::Expression;
pub use missed::in_time;
pub use missed::{Due, IN_TIME, LATE, MAX_CATCH_UP, Missed};
pub use progress::Progress;
pub use schedule::{Schedule, Zone};

/// Why something is not a recurring job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// One field of the expression is wrong.
    #[error("{expression:?} is not a cron expression: the {field} {text:?} (column {column}): {reason}")]
    Field {
        /// The whole expression.
        expression: String,
        /// Which field, in words.
        field: &'static str,
        /// The field's text.
        text: String,
        /// The column where the field begins; the first one is 1.
        column: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The expression as a whole is wrong.
    #[error("{expression:?} is not a cron expression: {reason}")]
    Expression {
        /// The expression.
        expression: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The time zone is unknown.
    #[error("{name:?} is not a known time zone; use a name such as Europe/Berlin or UTC")]
    Zone {
        /// Its name.
        name: String,
    },
    /// A name is not valid.
    #[error(transparent)]
    Name(#[from] crate::job::InvalidName),
    /// The payload is not valid.
    #[error("{0}")]
    Payload(String),
    /// Bytes in Redis are not an entry.
    #[error("the stored data is not a recurring job: {0}")]
    Stored(String),
}

impl Invalid {
    /// Returns the expression with a mark below the part that is wrong; `None` if no single part is.
    pub fn pointed(&self) -> Option<String> {
        let Self::Field { expression, text, column, .. } = self else { return None };
        let gap = " ".repeat(column.saturating_sub(1));
        Some(format!("{expression}\n{gap}{}", "^".repeat(text.chars().count().max(1))))
    }
}
