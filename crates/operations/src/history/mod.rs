//! The history of a queue: jobs that have ended, in a database. Redis keeps the last ones; the database keeps what the retention says.

mod departed;
mod plan;
mod report;
mod restore;
mod walk;

use std::fmt;

use streamfleet::job::{Envelope, JobId, QueueName, Timestamp};
use streamfleet_sql::Database;
use streamfleet_sql::history::questions::{self, Cursor, Filter};
use streamfleet_sql::history::{Body, Ending, Key};

use crate::times::rfc3339;
use crate::{Error, List};
pub use plan::{RestorePlan, plan_restore};
pub use report::{PastAttempt, PastCount, PastCounts, PastFacts, PastJob, PastLife};
pub use restore::{Restore, Restored, new_group, restore};

/// Which jobs are wanted. Without a condition, all of them.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Only jobs that ended in one of these ways: `done`, `dead`, `cancelled`.
    pub states: Vec<Ending>,
    /// Only jobs of these types, at most 16.
    pub types: Vec<String>,
    /// Only jobs with this id.
    pub id: Option<JobId>,
    /// Only dead letters of this group.
    pub fingerprint: Option<String>,
    /// Only jobs whose last attempt ran on this version.
    pub version: Option<String>,
    /// Only jobs that ended since this time.
    pub since: Option<Timestamp>,
    /// Only jobs that ended before this time.
    pub until: Option<Timestamp>,
    /// Only jobs with this value in a field that the history has as a key, such as `customer=9`.
    pub key: Option<(String, String)>,
}

/// Writes which jobs are wanted as the command line names them, without the value of a key, which is one of a payload.
impl fmt::Display for Wanted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { states, types, id, fingerprint, version, since, until, key } = self;
        let texts = |texts: Vec<&str>| Some(texts.join(",")).filter(|text| !text.is_empty());
        let words = [
            ("state", texts(states.iter().map(|state| state.as_str()).collect())),
            ("type", texts(types.iter().map(String::as_str).collect())),
            ("id", id.as_ref().map(ToString::to_string)),
            ("group", fingerprint.clone()),
            ("worker-version", version.clone()),
            ("since", since.map(rfc3339)),
            ("until", until.map(rfc3339)),
            ("key", key.as_ref().map(|(name, _)| name.clone())),
        ];
        let words = words.into_iter().filter_map(|(name, value)| Some(format!("--{name} {}", value?)));
        out.write_str(&words.collect::<Vec<_>>().join(" "))
    }
}

/// A page of jobs, the latest end first.
pub type PastJobs = List<PastJob, PastFacts>;

/// Lists a page of jobs of a queue.
///
/// # Errors
///
/// [`Error::Invalid`] if the condition or the cursor cannot be used, [`Error::Database`] if the database does not answer or refuses.
pub async fn list(
    database: &Database,
    queue: &QueueName,
    wanted: Wanted,
    (after, limit): (Option<&str>, usize),
) -> Result<PastJobs, Error> {
    let after = cursor(after)?;
    let page =
        questions::jobs(database, &filter(queue, wanted), after.as_ref(), limit).await.map_err(asked)?;
    Ok(List {
        items: page.rows.iter().map(PastJob::of).collect(),
        next: page.next.map(|next| next.to_string()),
        facts: PastFacts { queue: queue.to_string(), source: "database" },
        former: None,
    })
}

/// Shows all that the history has about the lives of a job's id, the latest first.
///
/// # Errors
///
/// [`Error::NotFound`] if it has none, [`Error::Database`] if the database does not answer or refuses.
pub async fn show(database: &Database, queue: &QueueName, id: &JobId) -> Result<Vec<PastLife>, Error> {
    let rows = questions::job(database, queue, id).await.map_err(asked)?;
    let mut lives = Vec::new();
    for row in rows.iter().take(report::MOST_LIVES) {
        if let Some(story) = questions::life(database, &row.key()).await.map_err(asked)? {
            lives.push(PastLife::of(&story));
        }
    }
    if lives.is_empty() {
        return Err(Error::NotFound(format!("the history of the queue {queue} has no job {id}")));
    }
    Ok(lives)
}

/// Counts the jobs of a queue that ended in a time, by type and state.
///
/// # Errors
///
/// [`Error::Database`] if the database does not answer or refuses.
pub async fn stats(
    database: &Database,
    queue: &QueueName,
    (since, until): (Timestamp, Timestamp),
) -> Result<PastCounts, Error> {
    let stats = questions::stats(database, queue, since.as_ms(), until.as_ms()).await.map_err(asked)?;
    Ok(PastCounts::of(queue, (since, until), &stats))
}

/// Returns the fields of the latest life of a job, for a replay.
///
/// # Errors
///
/// [`Error::NotFound`] if there is no such job, [`Error::Conflict`] if its fields were not kept, [`Error::Database`] if the database does not
/// answer or refuses.
pub async fn fields(database: &Database, queue: &QueueName, id: &JobId) -> Result<Envelope, Error> {
    let rows = questions::job(database, queue, id).await.map_err(asked)?;
    let unknown = || Error::NotFound(format!("the history of the queue {queue} has no job {id}"));
    let row = rows.first().ok_or_else(unknown)?;
    let story = questions::life(database, &row.key()).await.map_err(asked)?.ok_or_else(unknown)?;
    match story.body {
        Body::Stored(fields) => Ok(fields),
        Body::None => Err(Error::Conflict(format!(
            "the history has no payload of {id}: `history.payloads` says which ones it keeps"
        ))),
        Body::Masked(_) => {
            Err(Error::Conflict(format!("the history has a masked payload of {id}, which cannot run again")))
        }
        Body::TooLarge => Err(Error::Conflict(format!("the payload of {id} was too large for the history"))),
    }
}

/// Reads where a page begins.
fn cursor(after: Option<&str>) -> Result<Option<Cursor>, Error> {
    let after = after.map(str::parse).transpose();
    after.map_err(|error: questions::InvalidCursor| Error::invalid("after", error.to_string()))
}

fn filter(queue: &QueueName, wanted: Wanted) -> Filter {
    let Wanted { states, types, id, fingerprint, version, since, until, key } = wanted;
    Filter {
        states,
        types,
        id,
        fingerprint,
        worker_version: version,
        from_ms: since.map(Timestamp::as_ms),
        to_ms: until.map(Timestamp::as_ms),
        key: key.map(|(name, value)| Key { name, value }),
        ..Filter::of(queue.clone())
    }
}

/// What went wrong with a question.
fn asked(error: streamfleet_sql::Error) -> Error {
    if let streamfleet_sql::Error::Input(why) = error {
        return Error::invalid("body", why);
    }
    Error::Database { what: "the history cannot be read".to_owned(), error }
}
