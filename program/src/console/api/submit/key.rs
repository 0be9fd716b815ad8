//! Requests that may be repeated: the header `Idempotency-Key`. The key, the person who sends it and the line of the body
//! make the id of a job, and Redis accepts an id once. The job also carries a mark of its content, so that a key that is used
//! for another job is noticed. A key of its own keeps the mark after the job has ended.

use std::time::Duration;

use axum::extract::OptionalFromRequestParts;
use axum::http::request::Parts;
use sha2::{Digest as _, Sha256};
use streamfleet::job::{Envelope, JobId};
use streamfleet::{Queue, Submitted};
use streamfleet_operations::submit::Draft;

use crate::console::access::CONTENT_HASH;
use crate::console::api::failure::redis;
use crate::console::problem::Problem;

/// How long a key counts, unless the job says otherwise.
const WINDOW: Duration = Duration::from_secs(24 * 3600);

/// The longest key.
const MAX_BYTES: usize = 255;

/// What an id begins with …
const ID_PREFIX: &str = "key-";

/// … how many hexadecimal digits it has …
const ID_DIGITS: usize = 40;

/// … and a mark.
const MARK_DIGITS: usize = 16;

/// The key of a request.
pub(super) struct IdempotencyKey(String);

/// What makes the ids of a request's jobs.
pub(super) struct Origin(String);

/// What a job got from the key of its request.
pub(super) struct Marked {
    id: JobId,
    job_type: String,
    mark: String,
    window: Duration,
}

impl IdempotencyKey {
    /// Two people may use the same key.
    pub(super) fn origin(self, person: &str) -> Origin {
        Origin(hash([person.as_bytes(), self.0.as_bytes()]))
    }
}

impl Origin {
    /// Gives the job of a line the id that the key makes, unless it has an id of its own.
    pub(super) fn mark(&self, draft: &mut Draft, line: u64) -> Option<Marked> {
        if draft.id.is_some() {
            return None;
        }
        let id = hash([self.0.as_bytes(), &line.to_be_bytes()]);
        let id: JobId =
            format!("{ID_PREFIX}{}", &id[..ID_DIGITS]).parse().expect("hexadecimal digits are a valid id");
        let payload = draft.payload.as_deref().unwrap_or_default();
        let content = hash([draft.job_type.as_bytes(), draft.encoding.as_str().as_bytes(), payload]);
        let mark = content[..MARK_DIGITS].to_owned();
        draft.id = Some(id.clone());
        draft.headers.retain(|(name, _)| name != CONTENT_HASH);
        draft.headers.push((CONTENT_HASH.to_owned(), mark.clone()));
        Some(Marked { id, job_type: draft.job_type.clone(), mark, window: draft.window.unwrap_or(WINDOW) })
    }
}

/// Refuses an id of a job's own that looks as if a key had made it: the job could take the place of another person's. `at` is
/// where the request has the id.
///
/// # Errors
///
/// [`Problem`] that names the id.
pub(super) fn check_own_id(id: Option<&JobId>, at: &str) -> Result<(), Problem> {
    let is_of_key = |id: &JobId| {
        let id = id.to_string();
        let digits = id.strip_prefix(ID_PREFIX).unwrap_or_default();
        digits.len() == ID_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    if id.is_some_and(is_of_key) {
        let why = format!(
            "{ID_PREFIX} and {ID_DIGITS} hexadecimal digits are the id of a job with an Idempotency-Key: choose another id"
        );
        return Err(Problem::field(at, why));
    }
    Ok(())
}

impl Marked {
    /// Refuses a request whose key another job has got, as far as that is still known. The job that holds a unique key
    /// has got another key, or none.
    ///
    /// # Errors
    ///
    /// [`Problem`] with the status 422.
    pub(super) async fn check(&self, queue: &Queue, submitted: &Submitted) -> Result<(), Problem> {
        let id = &submitted.id;
        if submitted.existing().is_none() || *id != self.id {
            return Ok(());
        }
        let noted = queue.mark_of(id).await.map_err(redis("failed to look up the key"))?;
        let is_other = match noted {
            Some(mark) => mark != self.mark,
            None => self.is_of_another(queue).await?,
        };
        if !is_other {
            return Ok(());
        }
        let why = format!("the key was used for another job, {id}: use a new key for a new job");
        Err(Problem::field("header.Idempotency-Key", why))
    }

    /// Returns true if the job that the key made is another one, as far as the job still says so.
    async fn is_of_another(&self, queue: &Queue) -> Result<bool, Problem> {
        let status = queue.status(&self.id).await.map_err(redis("failed to look up the job"))?;
        let Some(status) = status else { return Ok(false) };
        let fields = queue.fields(&status).await.map_err(redis("failed to look up the job"))?;
        Ok(match fields.as_ref() {
            // A key marks each job that it makes.
            Some(fields) => mark_of(fields) != Some(self.mark.as_bytes()),
            None => !status.job_type.is_empty() && status.job_type != self.job_type,
        })
    }

    /// Keeps the mark for as long as the key counts, so that it is known after the job has ended. If that fails, the job is
    /// accepted all the same, and only the job itself knows its mark.
    pub(super) async fn note(&self, queue: &Queue, submitted: &Submitted) {
        if submitted.id != self.id {
            return;
        }
        if let Err(error) = queue.note_mark(&self.id, &self.mark, self.window).await {
            tracing::warn!(%error, job = %self.id, "the mark of an idempotency key could not be noted");
        }
    }
}

fn mark_of(fields: &Envelope) -> Option<&[u8]> {
    fields.get(format!("h.{CONTENT_HASH}").as_bytes())
}

/// A hash of these parts, in hexadecimal. No other parts have it, wherever they are divided.
fn hash<const N: usize>(parts: [&[u8]; N]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.len().to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl<S: Sync> OptionalFromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Problem> {
        let mut values = parts.headers.get_all("idempotency-key").iter();
        let Some(value) = values.next() else { return Ok(None) };
        let text = value.to_str().ok().filter(|text| {
            (1..=MAX_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
        });
        match (text, values.next()) {
            (Some(text), None) => Ok(Some(Self(text.to_owned()))),
            _ => Err(Problem::field(
                "header.Idempotency-Key",
                format!("it must be one text of 1 to {MAX_BYTES} visible ASCII characters"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use streamfleet::job::Timestamp;
    use streamfleet_operations::submit::read_draft;

    use super::*;

    fn draft(text: &str) -> Draft {
        read_draft(text.as_bytes(), Timestamp::default()).unwrap()
    }

    fn id(key: &str, person: &str, text: &str, line: u64) -> String {
        let (mut draft, origin) = (draft(text), IdempotencyKey(key.to_owned()).origin(person));
        origin.mark(&mut draft, line);
        draft.id.unwrap().to_string()
    }

    #[test]
    fn the_same_key_of_the_same_person_makes_the_same_id() {
        let (one, other) = (r#"{"type":"a"}"#, r#"{"type":"b"}"#);
        let first = id("k", "ann", one, 0);
        assert_eq!(first, id("k", "ann", other, 0));
        for different in [id("k", "bob", one, 0), id("j", "ann", one, 0), id("k", "ann", one, 1)] {
            assert_ne!(first, different);
        }
        assert_eq!(id("k", "ann", r#"{"type":"a","id":"own"}"#, 0), "own");
        assert_ne!(id("nk", "an", one, 0), id("k", "ann", one, 0), "parts are not run together");
    }

    #[test]
    fn the_mark_tells_jobs_apart() {
        let mark =
            |text: &str| IdempotencyKey("k".to_owned()).origin("ann").mark(&mut draft(text), 0).unwrap().mark;
        assert_eq!(mark(r#"{"type":"a","payload":1}"#), mark(r#"{"payload":1,"type":"a"}"#));
        assert_ne!(mark(r#"{"type":"a","payload":1}"#), mark(r#"{"type":"a","payload":2}"#));
    }
}
