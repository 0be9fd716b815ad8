//! What a filter looks at, and what it finds.

use std::borrow::Cow;

use super::{Condition, Filter};
use crate::job::{Codec, Encoding, Envelope, State, Timestamp};
use crate::mask_text;

/// Whether a filter matches a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Match {
    /// All conditions hold.
    Yes,
    /// A condition does not hold.
    No,
    /// A condition is about a payload that has more than
    /// [`Filter::MAX_PAYLOAD_BYTES`](super::Filter::MAX_PAYLOAD_BYTES). The others hold. The job counts as not matching;
    /// report how many there are.
    TooLarge,
    /// A condition is about something that cannot be read: a payload that is not valid JSON or MessagePack, that is compressed,
    /// encrypted or stored apart, or fields that are gone. The others hold. The job counts as not matching; report how many there are.
    Unreadable,
}

/// What a [`Filter`](super::Filter) looks at: a borrowed view of a job or a dead letter. See the [example](super::Filter).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Candidate<'a> {
    /// The job's id.
    pub id: &'a str,
    /// Its state. The fields that begin with `dead_` count only if it is [`State::Dead`], because a replay may carry
    /// those of the letter it came from.
    pub state: Option<State>,
    /// All its fields, with the large ones put back; `None` if they cannot be read or no longer exist.
    pub fields: Option<&'a Envelope>,
    /// Its type, if that is known without the fields.
    pub job_type: Option<&'a str>,
    /// Its last error, if that is known without the fields.
    pub error: Option<&'a str>,
    /// When its generation began; for a dead letter, when the job died.
    pub at: Option<Timestamp>,
    /// The names of fields whose values are hidden in texts; see [`Filter::masked`].
    masked: &'a [String],
}

impl<'a> Candidate<'a> {
    /// Describes a job of which only the id is known.
    pub fn new(id: &'a str) -> Self {
        Self { id, state: None, fields: None, job_type: None, error: None, at: None, masked: &[] }
    }

    setters! {
        /// Sets the state.
        state: impl Into<Option<State>> => state.into();
        /// Sets the fields.
        fields: impl Into<Option<&'a Envelope>> => fields.into();
        /// Sets the type.
        job_type: impl Into<Option<&'a str>> => job_type.into();
        /// Sets the last error.
        error: impl Into<Option<&'a str>> => error.into();
        /// Sets the time at which the generation began, or the job died.
        at: impl Into<Option<Timestamp>> => at.into();
    }

    /// The value of a field. An error if it is unknown: the fields or the large ones among them are elsewhere, or all of them
    /// are packed in one field that nobody could read.
    pub(super) fn field(&self, name: &str) -> Result<Option<&'a [u8]>, Match> {
        let fields = self.fields.ok_or(Match::Unreadable)?;
        let is_packed = || !name.starts_with("dead_") && fields.get(b"raw").is_some();
        match fields.get(name.as_bytes()) {
            None if !fields.is_whole() || is_packed() => Err(Match::Unreadable),
            value => Ok(value),
        }
    }

    /// The value of a field that only dead letters have.
    pub(super) fn dead_field(&self, name: &str) -> Result<Option<&'a [u8]>, Match> {
        if self.state == Some(State::Dead) { self.field(name) } else { Ok(None) }
    }

    pub(super) fn type_bytes(&self) -> Result<&'a [u8], Match> {
        match self.job_type {
            Some(job_type) => Ok(job_type.as_bytes()),
            None => Ok(self.field("type")?.unwrap_or_default()),
        }
    }

    pub(super) fn error_bytes(&self) -> Result<&'a [u8], Match> {
        match self.error {
            Some(error) => Ok(error.as_bytes()),
            None => Ok(self.dead_field("dead_error")?.unwrap_or_default()),
        }
    }

    /// A text as those see it who look for it.
    pub(super) fn shown<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        if self.masked.is_empty() {
            return Cow::Borrowed(text);
        }
        let text = String::from_utf8_lossy(text);
        Cow::Owned(mask_text(self.masked, &text).into_owned().into_bytes())
    }

    /// A text of UTF-8 as those see it who look for it.
    pub(super) fn shown_text(&self, text: String) -> String {
        if let Cow::Owned(shown) = mask_text(self.masked, &text) { shown } else { text }
    }

    /// The payload and its encoding; `None` for an encoding that does not exist. Nobody looks into one that codecs have encoded.
    pub(super) fn payload(&self) -> Result<(&'a [u8], Option<Encoding>), Match> {
        if self.fields.and_then(Codec::of).is_some() {
            return Err(Match::Unreadable);
        }
        let encoding = match self.field("encoding")? {
            None => Some(Encoding::Json),
            Some(name) => std::str::from_utf8(name).ok().and_then(Encoding::parse),
        };
        Ok((self.field("payload")?.unwrap_or_default(), encoding))
    }
}

impl Filter {
    /// Returns false if a condition that needs no error does not hold. Large fields may still be elsewhere: they decide nothing.
    #[doc(hidden)]
    pub fn may_match(&self, candidate: &Candidate<'_>, now: Timestamp) -> bool {
        let without_errors = |condition: &&Condition| !condition.reads_error();
        let mut decided = self.conditions.iter().filter(without_errors);
        let candidate = self.masking(candidate);
        !decided.any(|condition| condition.check(&candidate, now) == Match::No)
    }

    /// What the conditions look at: without the values that must not be found.
    pub(super) fn masking<'a>(&'a self, candidate: &Candidate<'a>) -> Candidate<'a> {
        Candidate { masked: &self.masked, ..*candidate }
    }
}
