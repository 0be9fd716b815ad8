//! Names and ids. They are parsed once at the boundary and trusted afterwards: no other code checks them again.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Says why a text is not a valid name or id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {text:?} is not valid: {rule}")]
pub struct InvalidName {
    what: &'static str,
    text: String,
    rule: &'static str,
}

impl InvalidName {
    pub(super) fn new(what: &'static str, text: &str, rule: &'static str) -> Self {
        let text = text.chars().take(140).collect();
        Self { what, text, rule }
    }
}

/// The id that Redis gave a stream entry: milliseconds of the server's clock and a sequence number.
///
/// Every attempt of a job has its own entry, and later entries have greater ids, so the id is also the attempt's fencing token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId {
    /// Milliseconds since the Unix epoch, by the server's clock.
    pub ms: u64,
    /// Distinguishes entries of the same millisecond.
    pub seq: u64,
}

impl EntryId {
    /// Creates an entry id from its two numbers.
    pub fn new(ms: u64, seq: u64) -> Self {
        Self { ms, seq }
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}", self.ms, self.seq)
    }
}

impl FromStr for EntryId {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid =
            || InvalidName::new("entry id", text, "an entry id must be two numbers, such as 1700000000000-0");
        let (ms, seq) = text.split_once('-').ok_or_else(invalid)?;
        if !is_digits(ms) || !is_digits(seq) {
            return Err(invalid());
        }
        Ok(Self { ms: ms.parse().map_err(|_| invalid())?, seq: seq.parse().map_err(|_| invalid())? })
    }
}

fn is_digits(text: &str) -> bool {
    let canonical = text == "0" || !text.starts_with('0');
    canonical && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

variants! {
    /// The priority streams of a queue. `High` is read first. `Low` is read last, but never starves.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
    pub enum Lane: Display {
        /// Read before the others.
        High = "high",
        /// The lane of jobs that do not ask for another one.
        #[default]
        Normal = "normal",
        /// Read when the other lanes are empty, and in a small share of the rounds.
        Low = "low",
    }
}

impl FromStr for Lane {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rule = "a lane must be high, normal or low";
        Self::named(text).ok_or_else(|| InvalidName::new("lane", text, rule))
    }
}

as_text!(Lane);

/// A job's identity: chosen by the producer, or derived from the entry that first carried the job.
///
/// A derived id in the normal lane is the text that `XADD` returned. The other lanes append their name
/// (`1700000000000-0-high`), so ids are unique across all lanes of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobId(Repr);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Repr {
    Derived(EntryId, Lane),
    Own(Arc<str>),
}

impl JobId {
    /// The maximum length of an id in bytes.
    pub const MAX_BYTES: usize = 128;

    /// Derives the id of a job that came without one from its first entry.
    pub fn derived(entry: EntryId, lane: Lane) -> Self {
        Self(Repr::Derived(entry, lane))
    }

    /// Returns the entry and lane of a derived id; `None` for an id that the producer chose.
    pub fn origin(&self) -> Option<(EntryId, Lane)> {
        match &self.0 {
            Repr::Derived(entry, lane) => Some((*entry, *lane)),
            Repr::Own(_) => None,
        }
    }

    /// Returns true if the producer chose the id.
    pub fn is_own(&self) -> bool {
        self.origin().is_none()
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Derived(entry, Lane::Normal) => write!(out, "{entry}"),
            Repr::Derived(entry, lane) => write!(out, "{entry}-{lane}"),
            Repr::Own(text) => out.write_str(text),
        }
    }
}

impl FromStr for JobId {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = (1..=Self::MAX_BYTES).contains(&text.len());
        if !fits || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            let rule = "an id must have 1 to 128 bytes of UTF-8 without white space or control characters";
            return Err(InvalidName::new("job id", text, rule));
        }
        Ok(derived_id(text).unwrap_or_else(|| Self(Repr::Own(text.into()))))
    }
}

fn derived_id(text: &str) -> Option<JobId> {
    let (entry, lane) = match text.rsplit_once('-') {
        Some((entry, "high")) => (entry, Lane::High),
        Some((entry, "low")) => (entry, Lane::Low),
        _ => (text, Lane::Normal),
    };
    Some(JobId::derived(entry.parse().ok()?, lane))
}

/// Defines a name: a validated text that is cheap to clone.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:literal, $extra:literal, $rule:literal) => {
        text!($(#[$doc])* $name(Arc<str>), $what, $name::is_valid, $rule);

        impl $name {
            /// Returns true if the text follows the rule for these names.
            pub const fn is_valid(text: &str) -> bool {
                is_name(text, $max, $extra)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        as_text!($name);
    };
}

name!(
    /// A job's type, like `report.generate`. It selects the handler.
    JobType, "job type", 128, b"._-",
    "a type must match [a-z0-9][a-z0-9._-]{0,127}"
);
name!(
    /// A queue's name. It is part of Redis keys and of metrics labels.
    QueueName, "queue", 64, b"_-",
    "a queue name must match [a-z0-9][a-z0-9_-]{0,63}"
);
name!(
    /// The first part of every Redis key.
    Namespace, "namespace", 64, b"._-",
    "a namespace must match [a-z0-9][a-z0-9._-]{0,63}"
);
name!(
    /// The name of one run of one worker process: `<host>-<pid>-<random>`, never reused.
    ConsumerName, "consumer", 128, b"._-",
    "a consumer name must match [a-z0-9][a-z0-9._-]{0,127}"
);
name!(
    /// The name of a recurring job. It is part of the ids of its jobs, so it is shorter than they are.
    CronName, "recurring job", 100, b"._-",
    "the name of a recurring job must match [a-z0-9][a-z0-9._-]{0,99}"
);
name!(
    /// The name of one step of a job, like `charge`. It is part of field names in a ledger, so it has no colon.
    StepName, "step", 64, b"._-",
    "a step's name must match [a-z0-9][a-z0-9._-]{0,63}"
);

name!(
    /// The name of a pool of programs. It is a label of metrics.
    PoolName, "pool", 200, b"._-",
    "the name of a pool must match [a-z0-9][a-z0-9._-]{0,199}"
);

name!(
    /// The name of a sink: where messages about incidents go. It is a label of metrics.
    SinkName, "sink", 64, b"_-",
    "the name of a sink must match [a-z0-9][a-z0-9_-]{0,63}"
);

/// Constant, so that a name in the code can be checked when it is compiled.
const fn is_name(text: &str, max: usize, extra: &[u8]) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let is_plain = bytes[at].is_ascii_lowercase() || bytes[at].is_ascii_digit();
        if !is_plain && (at == 0 || !contains(extra, bytes[at])) {
            return false;
        }
        at += 1;
    }
    at > 0 && at <= max
}

const fn contains(bytes: &[u8], wanted: u8) -> bool {
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == wanted {
            return true;
        }
        at += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_derived_id_of_the_normal_lane_is_what_xadd_returned() {
        let id = JobId::derived(EntryId::new(1700, 3), Lane::Normal);
        assert_eq!(id.to_string(), "1700-3");
        assert_eq!("1700-3".parse::<JobId>().unwrap(), id);
        assert!(!id.is_own());
    }

    #[test]
    fn the_same_entry_id_in_two_lanes_gives_two_ids() {
        let entry = EntryId::new(1700, 3);
        let texts: Vec<_> = Lane::ALL.iter().map(|lane| JobId::derived(entry, *lane).to_string()).collect();
        assert_eq!(texts, ["1700-3-high", "1700-3", "1700-3-low"]);
    }

    #[test]
    fn a_text_that_only_resembles_an_entry_id_stays_an_own_id() {
        for text in ["1700-03", "-1", "1700-", "order-7", "99999999999999999999-0", "1700-0-mid"] {
            let id: JobId = text.parse().unwrap();
            assert!(id.is_own(), "{text}");
            assert_eq!(id.to_string(), text);
        }
    }

    #[test]
    fn ids_with_white_space_control_characters_or_too_many_bytes_are_refused() {
        for text in ["", "a b", "a\nb", "a\0", &"x".repeat(129)] {
            assert!(text.parse::<JobId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn names_contain_only_allowed_characters() {
        assert!("report.generate".parse::<JobType>().is_ok());
        assert!("Report".parse::<JobType>().is_err());
        assert!("a.b".parse::<QueueName>().is_err());
        assert!("a}b{".parse::<QueueName>().is_err());
        assert!("".parse::<Namespace>().is_err());
        assert!("x".repeat(65).parse::<QueueName>().is_err());
    }

    proptest! {
        #[test]
        fn every_job_id_survives_being_written_and_read(text in "[!-~]{1,128}") {
            let id: JobId = text.parse().unwrap();
            prop_assert_eq!(id.to_string(), text);
        }

        #[test]
        fn entry_ids_survive_being_written_and_read(ms: u64, seq: u64) {
            let entry = EntryId::new(ms, seq);
            prop_assert_eq!(entry.to_string().parse::<EntryId>().unwrap(), entry);
        }
    }
}
