//! The sections `[history]` and `[outbox]`: which database, and what goes there or comes from there.

use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::SecretString;
use serde::{Deserialize, Serialize, Serializer};

use super::problem::Problem;
use super::source::PREFIX;
use super::tree::Node;
use crate::job::{OutOfBounds, QueueName, bounds, duration, size};

const RETENTION: RangeInclusive<Duration> = Duration::from_secs(86_400)..=Duration::from_secs(3650 * 86_400);
const POLL: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(60);
const JOURNAL: RangeInclusive<u64> = (1 << 20)..=(64 << 30);

/// The most fields of payloads by which jobs can be found.
const MAX_KEYS: usize = 8;

/// Of which jobs the history has the payload and the headers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Payloads {
    /// Of none.
    None,
    /// Of those that became dead letters.
    #[default]
    Failed,
    /// Of all that a worker ended, unless a successful one has more than 128 KiB.
    All,
}

/// The history of jobs in a database. Any process that has this section may write it; for each queue, one at a time does.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct HistorySection {
    /// The address of the database. It has a password, so it comes from a file or the environment.
    #[serde(default, serialize_with = "masked", skip_serializing_if = "Option::is_none")]
    pub url: Option<SecretString>,
    /// A file with the address. Takes precedence over `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url_file: Option<PathBuf>,
    /// The queues whose jobs are written; by default, all that this configuration has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueName>,
    /// Of which jobs the payload and the headers are written.
    #[serde(default)]
    pub payloads: Payloads,
    /// The fields of payloads, and headers as `h.<name>`, by whose values jobs can be found; at most 8, such as `customer`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// How long rows are kept, in whole days, from 1d to 3650d; without it, forever.
    #[serde(default, with = "duration::some", skip_serializing_if = "Option::is_none")]
    pub retention: Option<Duration>,
    /// How many bytes of Redis the journal of a queue may take while the database cannot be reached; 1MiB to 64GiB.
    #[serde(default = "journal_size", with = "size::known")]
    pub journal_size: u64,
    /// The folder for files with what the journal has no room for. Without it, such ends are lost, and an incident says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spill: Option<PathBuf>,
}

/// The outbox: a table that applications fill in their own transactions, and whose rows become jobs.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct OutboxSection {
    /// The address of the database. It has a password, so it comes from a file or the environment.
    #[serde(default, serialize_with = "masked", skip_serializing_if = "Option::is_none")]
    pub url: Option<SecretString>,
    /// A file with the address. Takes precedence over `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url_file: Option<PathBuf>,
    /// How often the table is read while it is empty; 50ms to 1min.
    #[serde(default = "poll", with = "duration")]
    pub poll: Duration,
    /// How long the id of a row is accepted only once, 1d to 3650d. A row that was submitted, but not deleted before the process died, is found to
    /// be submitted for this long.
    #[serde(default = "accepted_once", with = "duration")]
    pub accepted_once: Duration,
}

fn journal_size() -> u64 {
    256 << 20
}

fn poll() -> Duration {
    Duration::from_millis(200)
}

fn accepted_once() -> Duration {
    Duration::from_secs(7 * 86_400)
}

fn masked<S: Serializer>(_: &Option<SecretString>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str("***")
}

impl HistorySection {
    /// Returns what is wrong with its values.
    pub(super) fn check(&self) -> Vec<OutOfBounds> {
        let mut wrong = missing_address(self.url.as_ref(), self.url_file.as_ref());
        if self.keys.len() > MAX_KEYS {
            let reason = format!("has {} fields, but may have at most {MAX_KEYS}", self.keys.len());
            wrong.push(OutOfBounds::new("keys", reason));
        }
        let unusable = self
            .keys
            .iter()
            .find(|key| key.is_empty() || key.len() > 64 || key.chars().any(char::is_whitespace));
        wrong.extend(unusable.map(|key| {
            OutOfBounds::new(
                "keys",
                format!("has {key:?}, but a field has 1 to 64 characters without white space"),
            )
        }));
        wrong.extend(self.retention.and_then(|retention| bounds::time("retention", retention, &RETENTION)));
        if !JOURNAL.contains(&self.journal_size) {
            let reason = format!("is {}, but must be 1MiB to 64GiB", size::shown(self.journal_size));
            wrong.push(OutOfBounds::new("journal_size", reason));
        }
        wrong
    }

    /// Returns true if the jobs of this queue are written.
    pub fn has(&self, queue: &QueueName) -> bool {
        self.queues.is_empty() || self.queues.contains(queue)
    }

    /// Returns true if the fields of all jobs of this queue are needed: their payloads are written, or looked into.
    pub(super) fn needs_fields_of(&self, queue: &QueueName) -> bool {
        let is_needed = self.payloads == Payloads::All || !self.keys.is_empty();
        is_needed && self.has(queue)
    }

    /// Reads the address of the database.
    ///
    /// # Errors
    ///
    /// If the file that has it cannot be read.
    pub fn address(&self) -> io::Result<SecretString> {
        address(self.url.as_ref(), self.url_file.as_deref(), "history.url_file")
    }
}

impl OutboxSection {
    /// Returns what is wrong with its values.
    pub(super) fn check(&self) -> Vec<OutOfBounds> {
        let mut wrong = missing_address(self.url.as_ref(), self.url_file.as_ref());
        wrong.extend(bounds::time("poll", self.poll, &POLL));
        wrong.extend(bounds::time("accepted_once", self.accepted_once, &RETENTION));
        wrong
    }

    /// Reads the address of the database.
    ///
    /// # Errors
    ///
    /// If the file that has it cannot be read.
    pub fn address(&self) -> io::Result<SecretString> {
        address(self.url.as_ref(), self.url_file.as_deref(), "outbox.url_file")
    }
}

fn missing_address(url: Option<&SecretString>, file: Option<&PathBuf>) -> Vec<OutOfBounds> {
    let is_missing = url.is_none() && file.is_none();
    let reason =
        "is missing: the file with the address of the database, such as mysql://user:password@host/name";
    is_missing.then(|| OutOfBounds::new("url_file", reason)).into_iter().collect()
}

/// Returns the address of a database, which the file has if there is one. `key` names the file in errors.
///
/// # Errors
///
/// If the file cannot be read, or is empty.
pub fn address(url: Option<&SecretString>, file: Option<&Path>, key: &str) -> io::Result<SecretString> {
    let Some(path) = file else {
        return Ok(url.cloned().unwrap_or_else(|| SecretString::from("")));
    };
    let at = |reason: &dyn std::fmt::Display| io::Error::other(format!("{key}: {} {reason}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| at(&format_args!("cannot be read: {error}")))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(at(&"is empty")),
        text => Ok(SecretString::from(text)),
    }
}

/// Returns the addresses that stand in a file, unless they name a file of SQLite: all others may have a password.
pub(super) fn passwords_in_files(tree: &Node) -> Vec<Problem> {
    let mut problems = Vec::new();
    for section in ["history", "outbox"] {
        let path = [section.to_owned(), "url".to_owned()];
        let Some(url) = tree.get(&path) else { continue };
        let has_password = !url.value().as_str().is_some_and(|url| url.starts_with("sqlite:"));
        if has_password && !url.origin.starts_with(PREFIX) {
            let variable = format!("{PREFIX}{}__URL", section.to_uppercase());
            let reason = format!(
                "may have a password, which must not stand in this file: use url_file, or the variable {variable}"
            );
            problems.push(Problem::at(&path, reason, tree));
        }
    }
    problems
}
