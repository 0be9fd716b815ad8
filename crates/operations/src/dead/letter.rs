//! One dead letter: how it is found, and how it is shown, in a list or with all its fields.

use serde::Serialize;
use streamfleet::job::{Encoding, EntryId, JobId, State, Timestamp};
use streamfleet::{Queue, RedisError};
use streamfleet_engine::admin::{DeadLetter, DeadLetters, LetterLimits};

use crate::Error;
use crate::jobs::{seen, status_in_any_lane};
use crate::times::rfc3339;

/// What an error says if Redis fails.
pub(super) const NOT_FOUND_OUT: &str = "failed to look up the dead letter";

/// A dead letter, as lists show it. Of a payload, only the size is shown.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = DeadLetter)]
#[non_exhaustive]
pub struct Letter {
    /// Its id.
    pub letter: String,
    /// The id of its job.
    pub id: String,
    /// The type of the job.
    #[serde(rename = "type")]
    pub job_type: String,
    /// Why the job is dead.
    pub reason: String,
    /// The kind of the last failure; empty in letters of older versions.
    pub kind: String,
    /// The error of the last attempt.
    pub error: String,
    /// How many attempts were made.
    pub attempts: u64,
    /// When the job died.
    pub died: String,
    /// When the job died, in milliseconds since 1970.
    pub died_ms: u64,
    /// When an attempt failed first.
    pub first_failed: Option<String>,
    /// When an attempt failed first, in milliseconds since 1970.
    pub first_failed_ms: Option<u64>,
    /// The worker of the last attempt.
    pub worker: String,
    /// The lane that the job came from.
    pub lane: String,
    /// How often it was replayed.
    pub replays: u64,
    /// The group that counts it.
    pub fingerprint: String,
    /// The bytes of the payload; those of all large fields if they are kept apart and were not read.
    pub payload_bytes: usize,
}

impl Letter {
    /// Shows a letter as lists do.
    pub fn of(dead: &DeadLetter) -> Self {
        let count = |name: &str| dead.text(name).parse::<u64>().ok();
        let (died_at, first_failed) =
            (dead.died(), count("dead_first_failed_ms").and_then(Timestamp::from_ms));
        Self {
            letter: dead.entry.to_string(),
            id: dead.job().to_string(),
            job_type: dead.text("type"),
            reason: dead.text("dead_reason"),
            kind: dead.text("dead_kind"),
            error: dead.text("dead_error"),
            attempts: count("dead_attempts").unwrap_or(0),
            died: rfc3339(died_at),
            died_ms: died_at.as_ms(),
            first_failed: first_failed.map(rfc3339),
            first_failed_ms: first_failed.map(Timestamp::as_ms),
            worker: dead.text("dead_worker"),
            lane: dead.text("dead_origin"),
            replays: count("replays").unwrap_or(0),
            fingerprint: dead.text("dead_fingerprint"),
            payload_bytes: payload_bytes(dead),
        }
    }
}

fn payload_bytes(dead: &DeadLetter) -> usize {
    const NAME: &[u8] = b"payload";
    let apart = || dead.fields.offloaded().map_or(0, |offloaded| offloaded.bytes.saturating_sub(NAME.len()));
    dead.fields.get(NAME).map_or_else(apart, <[u8]>::len)
}

/// A dead letter with all its fields.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = DeadLetterFields)]
#[non_exhaustive]
pub struct LetterFields {
    /// What lists show.
    #[serde(flatten)]
    pub letter: Letter,
    /// The queue.
    pub queue: String,
    /// How long it stays.
    #[serde(flatten)]
    pub kept: Kept,
    /// Its fields, in their order.
    pub fields: Vec<Field>,
}

/// One field of a dead letter.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = LetterField)]
#[non_exhaustive]
pub struct Field {
    /// Its name.
    pub name: String,
    /// `utf8`; `hex` if the value is not text; `unseen` if it is a payload that codecs have encrypted or stored apart.
    pub form: &'static str,
    /// Its value: text as it is, other bytes in hexadecimal; of what nobody can see, why.
    pub value: String,
}

impl LetterFields {
    /// Shows a letter to people. A payload that was only compressed is decompressed; of any other that codecs have encoded, it is
    /// said why nobody can see it.
    pub fn seen(dead: &DeadLetter, queue: &Queue, limits: LetterLimits) -> Self {
        let Some(seen) = seen(&dead.fields) else { return Self::of(dead, queue, limits) };
        let mut read = dead.clone();
        read.fields = seen.fields;
        let mut shown = Self { letter: Letter::of(dead), ..Self::of(&read, queue, limits) };
        if let Some(value) = seen.unseen {
            shown.fields.retain(|field| field.name != "payload");
            shown.fields.push(Field { name: "payload".to_owned(), form: "unseen", value });
        }
        shown
    }

    /// Shows a letter of a queue that keeps letters within these limits.
    pub fn of(dead: &DeadLetter, queue: &Queue, limits: LetterLimits) -> Self {
        let field = |(name, value): (&[u8], &[u8])| {
            let name = String::from_utf8_lossy(name).into_owned();
            match std::str::from_utf8(value) {
                Ok(text) => Field { name, form: "utf8", value: text.to_owned() },
                Err(_) => Field { name, form: "hex", value: hex(value) },
            }
        };
        let fields = dead.fields.fields().map(field).collect();
        Self { fields, ..Self::without_fields(dead, queue, limits) }
    }

    /// Shows a letter to somebody who may not see its fields.
    pub fn without_fields(dead: &DeadLetter, queue: &Queue, limits: LetterLimits) -> Self {
        Self {
            letter: Letter::of(dead),
            queue: queue.name().to_string(),
            kept: Kept::of(dead.entry, limits),
            fields: Vec::new(),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// How long a letter stays unless somebody replays or drops it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct Kept {
    /// When retention drops it at the latest; absent if it stays for any time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// When retention drops it at the latest, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<u64>,
    /// How many letters the queue keeps: with more, the oldest go first. Absent if there is no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_max: Option<u64>,
}

impl Kept {
    /// How long a queue with these limits keeps a letter. Its time begins with the letter's id, which an edit renews.
    pub fn of(letter: EntryId, limits: LetterLimits) -> Self {
        let written = Timestamp::from_ms(letter.ms).unwrap_or_default();
        let at = limits.retention.map(|retention| written.after(retention));
        Self { expires_at: at.map(rfc3339), expires_at_ms: at.map(Timestamp::as_ms), dead_max: limits.most }
    }
}

/// The encoding that a letter names. One that does not exist is treated as raw bytes.
pub fn encoding(letter: &DeadLetter) -> Encoding {
    match letter.text("encoding").as_str() {
        "" => Encoding::Json,
        name => Encoding::parse(name).unwrap_or(Encoding::Raw),
    }
}

/// Finds the letter with this id, or of the job with this id, among the letters of a queue. It has its large fields unless they
/// are [bare](DeadLetters::bare).
///
/// # Errors
///
/// [`Error::NotFound`] if there is none, which says what became of it; [`Error::Redis`].
pub async fn find(letters: DeadLetters<'_>, queue: &Queue, id: &JobId) -> Result<DeadLetter, Error> {
    if let Some(letter) = found(letters, queue, id).await.map_err(Error::redis(NOT_FOUND_OUT))? {
        return Ok(letter);
    }
    Err(Error::NotFound(missing(queue, id).await.map_err(Error::redis(NOT_FOUND_OUT))?))
}

/// Finds the letter with this id, or of the job with this id; `None` if there is none.
pub(super) async fn found(
    letters: DeadLetters<'_>,
    queue: &Queue,
    id: &JobId,
) -> Result<Option<DeadLetter>, RedisError> {
    if let Ok(entry) = id.to_string().parse::<EntryId>()
        && let Some(letter) = letters.get(entry).await?
    {
        return Ok(Some(letter));
    }
    match status_in_any_lane(queue, id).await?.and_then(|status| status.dead) {
        Some(entry) => letters.get(entry).await,
        None => Ok(None),
    }
}

/// What became of a letter, or of a job without one, as far as that is known.
pub(super) async fn missing(queue: &Queue, id: &JobId) -> Result<String, RedisError> {
    if let Ok(entry) = id.to_string().parse::<EntryId>()
        && let Some(edited) = queue.dead_letters().edited(entry).await?
    {
        return replaced(queue, id, edited).await;
    }
    Ok(gone(queue, id, queue.status(id).await?.map(|status| status.state)))
}

/// Says that somebody edited a letter, and whether the one that took its place still exists.
pub(super) async fn replaced(queue: &Queue, id: &JobId, edited: EntryId) -> Result<String, RedisError> {
    Ok(match queue.dead_letters().bare().get(edited).await? {
        Some(_) => format!("{id} was edited: its dead letter is now {edited}"),
        None => format!("{id} was edited: the dead letter {edited} took its place, and is gone, too"),
    })
}

/// Says that a letter does not exist, and what became of the job.
pub(super) fn gone(queue: &Queue, id: &JobId, state: Option<State>) -> String {
    match state {
        Some(state) => format!("{id} has no dead letter: the job is {state}"),
        None => format!("the queue {} has no dead letter {id}, and none of a job with this id", queue.name()),
    }
}
