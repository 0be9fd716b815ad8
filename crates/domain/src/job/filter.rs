//! Filters: which jobs or dead letters a person means. All conditions of a filter must hold. An empty condition is refused,
//! because it would mean everything.

mod candidate;
mod comparison;
mod condition;
pub(in crate::job) mod path;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{DeadReason, State, Timestamp, format_duration};
pub use candidate::{Candidate, Match};
use condition::{Condition, instant_text};

/// Which jobs or dead letters somebody means: a list of conditions that must all hold. Without conditions, it matches
/// everything; whether that is allowed is for the caller to decide, with [`Filter::is_empty`].
///
/// A filter has at most [`MAX_CONDITIONS`](Self::MAX_CONDITIONS) conditions, and at most [`MAX_BYTES`](Self::MAX_BYTES)
/// of text. It can be stored with serde. A stored filter with a condition that this version does not know is refused.
///
/// ```
/// # mod streamfleet {
/// #     pub use streamfleet_domain::job;
/// #     pub use streamfleet_domain::job::filter as admin;
/// # }
/// use streamfleet::admin::{Candidate, Filter, Match};
/// use streamfleet::job::{Envelope, Timestamp};
///
/// # fn main() -> Result<(), streamfleet::admin::FilterError> {
/// let filter = Filter::new().job_type("mail.*")?.condition("payload.customer=9")?;
/// assert_eq!(filter.to_string(), "--type 'mail.*' --where payload.customer=9");
///
/// let fields: [(&[u8], &[u8]); 2] = [(b"type", b"mail.send"), (b"payload", br#"{"customer":9}"#)];
/// let fields = Envelope::new(fields.into_iter());
/// let job = Candidate::new("order-7").fields(&fields);
/// assert_eq!(filter.check(&job, Timestamp::default()), Match::Yes);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Filter {
    conditions: Vec<Condition>,
    /// In lower case.
    masked: Vec<String>,
}

/// A filter as it is stored: the name and the value of each condition, as a person would type them.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    conditions: Vec<(String, String)>,
    /// A version that does not know it refuses the filter, instead of finding what it must not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    masked: Vec<String>,
}

/// Why a filter is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// A condition has no value. It would mean everything.
    #[error("the condition {0:?} is empty: give it a value, or leave it out")]
    Empty(String),
    /// A condition's value is not valid.
    #[error("{value:?} is not a valid value of the condition {name:?}: {why}")]
    Invalid {
        /// The condition's name.
        name: String,
        /// The beginning of its value.
        value: String,
        /// The rule that the value breaks.
        why: String,
    },
    /// There is no such condition.
    #[error("there is no condition {0:?}")]
    Unknown(String),
    /// It has too many conditions.
    #[error("a filter may have at most {max} conditions", max = Filter::MAX_CONDITIONS)]
    TooMany,
    /// It is too long.
    #[error("a filter may have at most {max} bytes", max = Filter::MAX_BYTES)]
    TooLarge,
}

impl Filter {
    /// The most conditions of a filter.
    pub const MAX_CONDITIONS: usize = 32;

    /// The most bytes of a filter, as it is stored.
    pub const MAX_BYTES: usize = 4096;

    /// A payload with more bytes than this is not parsed; see [`Match::TooLarge`].
    pub const MAX_PAYLOAD_BYTES: usize = 1024 * 1024;

    /// Creates a filter without conditions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns true if the filter has no conditions, and so matches everything.
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Returns true if a condition may look at a value with one of these names: a header, or a field of the payload at any
    /// depth. `is_name` decides about one name. A text may be anywhere.
    ///
    /// A program that hides such values from a person must refuse these conditions too: by asking often enough whether a
    /// value is greater than another, the person would learn it.
    pub fn looks_at(&self, is_name: impl Fn(&str) -> bool) -> bool {
        self.conditions.iter().any(|condition| condition.looks_at(&is_name))
    }

    /// Compares errors, headers and texts in payloads only as they are shown: without the values of these fields, whose names
    /// are in lower case, as far as a text shows them. Conditions at which [`Filter::looks_at`] finds such a name are the
    /// caller's to refuse.
    #[doc(hidden)]
    #[must_use]
    pub fn masked(mut self, names: &[String]) -> Self {
        if self.conditions.iter().any(|condition| condition.is_costly() || condition.reads_error()) {
            self.masked = names.to_vec();
        }
        self
    }

    /// Returns true if a condition is about errors.
    #[doc(hidden)]
    pub fn reads_errors(&self) -> bool {
        self.conditions.iter().any(Condition::reads_error)
    }

    /// Returns whether the filter matches a job. `now` is the server's time, for conditions about a job's age.
    pub fn check(&self, candidate: &Candidate<'_>, now: Timestamp) -> Match {
        let (cheap, costly) = (|of: &&Condition| !of.is_costly(), |of: &&Condition| of.is_costly());
        let (mut found, candidate) = (Match::Yes, self.masking(candidate));
        for condition in self.conditions.iter().filter(cheap).chain(self.conditions.iter().filter(costly)) {
            match condition.check(&candidate, now) {
                Match::Yes => {}
                Match::No => return Match::No,
                undecided @ (Match::TooLarge | Match::Unreadable) => found = undecided,
            }
        }
        found
    }

    /// Adds a condition by its name: `type`, `state`, `id-prefix`, `text`, `error`, `reason`, `kind`, `group`, `where`,
    /// `since`, `until` or `older-than`. The methods below do the same for one condition each. `since` and `until` also take
    /// a duration such as `2d`: that long ago.
    ///
    /// # Errors
    ///
    /// [`FilterError`] if there is no such condition, its value is empty or not valid, or the filter gets too large.
    pub fn and(mut self, name: &str, value: &str) -> Result<Self, FilterError> {
        let condition = Condition::parse(name, value)?;
        if self.conditions.len() == Self::MAX_CONDITIONS {
            return Err(FilterError::TooMany);
        }
        self.conditions.push(condition);
        let stored = serde_json::to_vec(&self).expect("a filter consists of texts");
        if stored.len() > Self::MAX_BYTES { Err(FilterError::TooLarge) } else { Ok(self) }
    }

    /// Adds a condition about a payload's field or a header, such as `payload.customer=9`,
    /// `payload.items[0].sku!=x`, `payload["a.b"]~bob`, `payload.total>100` or `h.tenant=9`.
    ///
    /// The operators are `=`, `!=`, `<`, `<=`, `>`, `>=`, and `~` (contains). Values are compared as text, so the number
    /// 9 equals `9`. If the value is a number, `<` and its kin compare numbers. `!=` also holds if the field is missing.
    ///
    /// # Errors
    ///
    /// [`FilterError`] if the condition is empty or not valid, or the filter gets too large.
    pub fn condition(self, text: &str) -> Result<Self, FilterError> {
        self.and("where", text)
    }

    /// Adds a condition about a header: it has this value. The name must not contain white space or any of `=!<>~`, which
    /// would begin an operator.
    ///
    /// # Errors
    ///
    /// [`FilterError`] if the name or the value is empty or not valid, or the filter gets too large.
    pub fn header(self, name: &str, value: &str) -> Result<Self, FilterError> {
        let condition = format!("h.{name}={value}");
        if name.contains(path::ends_name) {
            return Err(FilterError::Invalid {
                name: "where".to_owned(),
                value: condition.chars().take(condition::REPEATED_CHARS).collect(),
                why: "the name of a header must not contain white space or any of =!<>~".to_owned(),
            });
        }
        self.and("where", &condition)
    }

    /// Adds a condition about the type: this one, or with `mail.*` all that begin with `mail.`.
    ///
    /// # Errors
    ///
    /// [`FilterError`] if it is not a type, or the filter gets too large.
    pub fn job_type(self, pattern: &str) -> Result<Self, FilterError> {
        self.and("type", pattern)
    }

    /// Adds a condition about the state.
    ///
    /// # Errors
    ///
    /// [`FilterError`] if the filter gets too large.
    pub fn state(self, state: State) -> Result<Self, FilterError> {
        self.and("state", state.as_str())
    }

    /// Adds a condition about the beginning of the id.
    ///
    /// # Errors
    ///
    /// [`FilterError`] if the prefix is empty, or the filter gets too large.
    pub fn id_prefix(self, prefix: &str) -> Result<Self, FilterError> {
        self.and("id-prefix", prefix)
    }

    /// Adds a condition about a text that the payload or the error contains. In JSON, it also finds the escaped forms
    /// that PHP and Python write.
    ///
    /// # Errors
    ///
    /// [`FilterError`] if the text is empty, or the filter gets too large.
    pub fn text(self, text: &str) -> Result<Self, FilterError> {
        self.and("text", text)
    }

    /// Adds a condition about a text that the error contains.
    ///
    /// # Errors
    ///
    /// [`FilterError`] if the text is empty, or the filter gets too large.
    pub fn error(self, text: &str) -> Result<Self, FilterError> {
        self.and("error", text)
    }

    /// Adds a condition about why the job is dead.
    ///
    /// # Errors
    ///
    /// [`FilterError`] if the filter gets too large.
    pub fn reason(self, reason: DeadReason) -> Result<Self, FilterError> {
        self.and("reason", reason.as_str())
    }

    /// Adds a condition about the kind of a dead job's last failure, the value of `dead_kind`.
    ///
    /// # Errors
    ///
    /// [`FilterError`] if the kind is empty, or the filter gets too large.
    pub fn kind(self, kind: &str) -> Result<Self, FilterError> {
        self.and("kind", kind)
    }

    /// Adds a condition about a dead letter's fingerprint: this one, `other` for letters that were counted in no group of
    /// their own when they were written, or `none` for letters without one.
    ///
    /// # Errors
    ///
    /// [`FilterError`] if the fingerprint is empty, or the filter gets too large.
    pub fn group(self, fingerprint: &str) -> Result<Self, FilterError> {
        self.and("group", fingerprint)
    }

    /// Adds a condition about the earliest time; see [`Candidate::at`].
    ///
    /// # Errors
    ///
    /// [`FilterError`] if the filter gets too large.
    pub fn since(self, time: Timestamp) -> Result<Self, FilterError> {
        self.and("since", &instant_text(time))
    }

    /// Adds a condition about the time before which it must be; see [`Candidate::at`].
    ///
    /// # Errors
    ///
    /// [`FilterError`] if the filter gets too large.
    pub fn until(self, time: Timestamp) -> Result<Self, FilterError> {
        self.and("until", &instant_text(time))
    }

    /// Adds a condition about the age, to the millisecond; see [`Candidate::at`].
    ///
    /// # Errors
    ///
    /// [`FilterError`] if the filter gets too large.
    pub fn older_than(self, age: Duration) -> Result<Self, FilterError> {
        self.and("older-than", &format_duration(age))
    }

    /// Returns the value of the condition with this name, if there is exactly one.
    #[doc(hidden)]
    pub fn value_of(&self, name: &str) -> Option<String> {
        let mut values = self.conditions.iter().map(Condition::parts).filter(|(own, _)| *own == name);
        values.next().filter(|_| values.next().is_none()).map(|(_, value)| value)
    }

    /// Replaces conditions about the age by conditions about the time, so that the filter means the same jobs later.
    #[must_use]
    pub fn fixed_at(mut self, now: Timestamp) -> Self {
        for condition in &mut self.conditions {
            condition.fix(now);
        }
        self
    }
}

/// Writes the filter as a person would type it on a command line.
impl fmt::Display for Filter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, condition) in self.conditions.iter().enumerate() {
            let (name, value) = condition.parts();
            // On a command line, `--reason` says why somebody does something.
            let name = if name == "reason" { "dead-reason" } else { name };
            let gap = if at == 0 { "" } else { " " };
            write!(out, "{gap}--{name} {}", shell_word(&value))?;
        }
        Ok(())
    }
}

fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-:/=@+".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

impl From<Filter> for Stored {
    fn from(filter: Filter) -> Self {
        let parts = filter.conditions.iter().map(Condition::parts);
        let conditions = parts.map(|(name, value)| (name.to_owned(), value)).collect();
        Self { conditions, masked: filter.masked }
    }
}

impl TryFrom<Stored> for Filter {
    type Error = FilterError;

    fn try_from(stored: Stored) -> Result<Self, Self::Error> {
        let conditions = &stored.conditions;
        let filter =
            conditions.iter().try_fold(Self::new(), |filter, (name, value)| filter.and(name, value))?;
        Ok(Self { masked: stored.masked, ..filter })
    }
}

#[cfg(test)]
mod tests;
