//! One condition of a filter: how it is read, written and decided.

use std::time::Duration;

use super::comparison::Comparison;
use super::{Candidate, Filter, FilterError, Match};
use crate::job::{DeadReason, Encoding, JobId, JobType, State, Timestamp, format_duration, parse_duration};

/// The most characters of a value that an error repeats.
pub(super) const REPEATED_CHARS: usize = 140;

/// The most bytes of the names that a letter or a job has.
const MAX_NAME_BYTES: usize = 128;

/// The group that counts letters whose own groups are not counted apart.
const OTHER_GROUP: &str = "other";

/// The group of letters without a fingerprint.
const NO_FINGERPRINT: &str = "none";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Condition {
    Type(String),
    /// Without the `*`.
    TypePrefix(String),
    State(State),
    IdPrefix(String),
    Text(Needle),
    Error(String),
    Reason(DeadReason),
    Kind(String),
    Group(String),
    Where(Comparison),
    Since(Timestamp),
    Until(Timestamp),
    OlderThan(Duration),
    NewerThan(Duration),
}

impl Condition {
    /// Reads a condition from its name and its value.
    pub(super) fn parse(name: &str, value: &str) -> Result<Self, FilterError> {
        let invalid = |why: String| FilterError::Invalid {
            name: name.to_owned(),
            value: value.chars().take(REPEATED_CHARS).collect(),
            why,
        };
        if value.trim().is_empty() {
            return Err(FilterError::Empty(name.to_owned()));
        }
        let condition = match name {
            "type" => parse_type(value),
            "state" => {
                value.parse::<State>().map(Self::State).map_err(|()| one_of(&State::ALL.map(State::as_str)))
            }
            "id-prefix" => parse_id_prefix(value),
            "text" => Ok(Self::Text(Needle::new(value))),
            "error" => Ok(Self::Error(value.to_owned())),
            "reason" => {
                let known = DeadReason::named(value);
                known.map(Self::Reason).ok_or_else(|| one_of(&DeadReason::ALL.map(DeadReason::as_str)))
            }
            "kind" => parse_word(value).map(Self::Kind),
            "group" => parse_word(value).map(Self::Group),
            "where" => value.parse::<Comparison>().map(Self::Where),
            // A duration counts back from now.
            "since" => parse_duration(value)
                .map_or_else(|| parse_instant(value).map(Self::Since), |age| Ok(Self::NewerThan(age))),
            "until" => parse_duration(value)
                .map_or_else(|| parse_instant(value).map(Self::Until), |age| Ok(Self::OlderThan(age))),
            "older-than" => {
                let age = parse_duration(value).map(Self::OlderThan);
                age.ok_or_else(|| "it must be a duration, such as 1h30m or 2d".to_owned())
            }
            _ => return Err(FilterError::Unknown(name.chars().take(REPEATED_CHARS).collect())),
        };
        condition.map_err(invalid)
    }

    /// Returns the name and the value from which [`Condition::parse`] makes the same condition.
    pub(super) fn parts(&self) -> (&'static str, String) {
        match self {
            Self::Type(name) => ("type", name.clone()),
            Self::TypePrefix(prefix) => ("type", format!("{prefix}*")),
            Self::State(state) => ("state", state.to_string()),
            Self::IdPrefix(prefix) => ("id-prefix", prefix.clone()),
            Self::Text(needle) => ("text", needle.text.clone()),
            Self::Error(text) => ("error", text.clone()),
            Self::Reason(reason) => ("reason", reason.to_string()),
            Self::Kind(kind) => ("kind", kind.clone()),
            Self::Group(fingerprint) => ("group", fingerprint.clone()),
            Self::Where(comparison) => ("where", comparison.to_string()),
            Self::Since(time) => ("since", instant_text(*time)),
            Self::Until(time) => ("until", instant_text(*time)),
            Self::OlderThan(age) => ("older-than", format_duration(*age)),
            Self::NewerThan(age) => ("since", format_duration(*age)),
        }
    }

    /// Whether deciding takes time in proportion to the payload.
    pub(super) fn is_costly(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Where(_))
    }

    /// Whether it may look at a value with such a name.
    pub(super) fn looks_at(&self, is_name: impl Fn(&str) -> bool) -> bool {
        match self {
            Self::Text(_) => true,
            Self::Where(comparison) => comparison.names().any(is_name),
            Self::Type(_)
            | Self::TypePrefix(_)
            | Self::State(_)
            | Self::IdPrefix(_)
            | Self::Error(_)
            | Self::Reason(_)
            | Self::Kind(_)
            | Self::Group(_)
            | Self::Since(_)
            | Self::Until(_)
            | Self::OlderThan(_)
            | Self::NewerThan(_) => false,
        }
    }

    /// Whether deciding takes the last error.
    pub(super) fn reads_error(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Error(_))
    }

    /// Turns a condition about the age into one about the time.
    pub(super) fn fix(&mut self, now: Timestamp) {
        let ago = |age: Duration| Timestamp::default().after(now.since(Timestamp::default().after(age)));
        if let Self::OlderThan(age) = self {
            *self = Self::Until(ago(*age));
        } else if let Self::NewerThan(age) = self {
            *self = Self::Since(ago(*age));
        }
    }

    pub(super) fn check(&self, candidate: &Candidate<'_>, now: Timestamp) -> Match {
        self.holds(candidate, now)
            .map_or_else(|undecided| undecided, |holds| if holds { Match::Yes } else { Match::No })
    }

    /// Returns whether the condition holds, or why that cannot be decided.
    fn holds(&self, candidate: &Candidate<'_>, now: Timestamp) -> Result<bool, Match> {
        let is = |name: &str, want: &str| -> Result<bool, Match> {
            Ok(candidate.dead_field(name)? == Some(want.as_bytes()))
        };
        let at = || candidate.at.ok_or(Match::Unreadable);
        match self {
            Self::Type(name) => Ok(candidate.type_bytes()? == name.as_bytes()),
            Self::TypePrefix(prefix) => Ok(candidate.type_bytes()?.starts_with(prefix.as_bytes())),
            Self::State(state) => Ok(candidate.state.ok_or(Match::Unreadable)? == *state),
            Self::IdPrefix(prefix) => Ok(candidate.id.starts_with(prefix.as_str())),
            Self::Text(needle) => needle.occurs(candidate),
            Self::Error(text) => Ok(contains(&candidate.shown(candidate.error_bytes()?), text)),
            Self::Reason(reason) => is("dead_reason", reason.as_str()),
            Self::Kind(kind) => is("dead_kind", kind),
            Self::Group(name) => match name.as_str() {
                OTHER_GROUP => is("dead_group", OTHER_GROUP),
                // Letters of older versions, and some that were written by hand.
                NO_FINGERPRINT => {
                    let is_dead = candidate.state == Some(State::Dead);
                    Ok(is_dead && candidate.dead_field("dead_fingerprint")?.is_none())
                }
                fingerprint => is("dead_fingerprint", fingerprint),
            },
            Self::Where(comparison) => comparison.holds(candidate),
            Self::Since(time) => Ok(at()? >= *time),
            Self::Until(time) => Ok(at()? < *time),
            Self::OlderThan(age) => Ok(now.since(at()?) > *age),
            Self::NewerThan(age) => Ok(now.since(at()?) <= *age),
        }
    }
}

/// A text to look for, with the forms in which JSON may contain it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Needle {
    text: String,
    /// Those that differ from the text.
    escaped: Vec<String>,
}

impl Needle {
    fn new(text: &str) -> Self {
        // Python's json.dumps and PHP's json_encode write ASCII unless they are told otherwise. PHP also escapes slashes.
        let ascii = ascii_json(text);
        let forms = [json_text(text), ascii.replace('/', r"\/"), ascii];
        let mut escaped: Vec<String> = Vec::new();
        for form in forms {
            if form != text && !escaped.contains(&form) {
                escaped.push(form);
            }
        }
        Self { text: text.to_owned(), escaped }
    }

    fn occurs(&self, candidate: &Candidate<'_>) -> Result<bool, Match> {
        if candidate.error_bytes().is_ok_and(|error| contains(error, &self.text)) {
            return Ok(true);
        }
        let (payload, encoding) = candidate.payload()?;
        if payload.len() > Filter::MAX_PAYLOAD_BYTES {
            return Err(Match::TooLarge);
        }
        let is_json = encoding == Some(Encoding::Json);
        let escaped = self.escaped.iter().filter(|_| is_json);
        Ok(std::iter::once(&self.text).chain(escaped).any(|form| contains(payload, form)))
    }
}

/// The text inside the quotes of a JSON string.
fn json_text(text: &str) -> String {
    let quoted = serde_json::to_string(text).expect("a text is valid JSON");
    quoted[1..quoted.len() - 1].to_owned()
}

/// Returns a text as JSON without its quotes, with everything but ASCII escaped.
fn ascii_json(text: &str) -> String {
    let escape = |c: char| c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect();
    json_text(text).chars().map(|c| if c.is_ascii() { c.to_string() } else { escape(c) }).collect()
}

fn contains(bytes: &[u8], part: &str) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.contains(part),
        Err(_) => bytes.windows(part.len()).any(|window| window == part.as_bytes()),
    }
}

/// An instant as [`Condition::parse`] reads it.
pub(super) fn instant_text(time: Timestamp) -> String {
    let ms = i64::try_from(time.as_ms()).unwrap_or(i64::MAX);
    format!("{:.3}", jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX))
}

fn parse_instant(text: &str) -> Result<Timestamp, String> {
    let zoned = || text.parse::<jiff::Zoned>().map(|zoned| zoned.timestamp());
    let time = text.parse::<jiff::Timestamp>().or_else(|_| zoned());
    let ms = time.ok().and_then(|time| u64::try_from(time.as_millisecond()).ok());
    ms.and_then(Timestamp::from_ms)
        .ok_or_else(|| "it must have a date, a time and a zone, such as 2026-12-01T10:00:00Z, or be a duration ago, such as 2d".to_owned())
}

fn parse_type(text: &str) -> Result<Condition, String> {
    const RULE: &str = "it must be a type, such as mail.send, or the beginning of types, such as mail.*";
    let Some(prefix) = text.strip_suffix('*') else {
        return if JobType::is_valid(text) {
            Ok(Condition::Type(text.to_owned()))
        } else {
            Err(RULE.to_owned())
        };
    };
    // A valid beginning is itself a valid type.
    if JobType::is_valid(prefix) {
        Ok(Condition::TypePrefix(prefix.to_owned()))
    } else {
        Err(RULE.to_owned())
    }
}

fn parse_id_prefix(text: &str) -> Result<Condition, String> {
    let valid = text.parse::<JobId>().map_err(|error| error.to_string());
    valid.map(|_| Condition::IdPrefix(text.to_owned()))
}

fn parse_word(text: &str) -> Result<String, String> {
    let is_word = text.len() <= MAX_NAME_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_word { Ok(text.to_owned()) } else { Err("it must be a short word".to_owned()) }
}

fn one_of(names: &[&str]) -> String {
    format!("it must be one of {}", names.join(", "))
}
