//! What became of the last ticks of a recurring job.

use futures_util::future::join_all;
use serde::Serialize;
use streamfleet::Queue;
use streamfleet::cron::Entry;
use streamfleet::job::{CronName, Timestamp};

use crate::times::rfc3339;
use crate::{Error, List};

/// A tick that was handled, and the job that it submitted.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct RecurringTick {
    /// When it was due.
    pub at: String,
    /// When it was due, in milliseconds since 1970.
    pub at_ms: u64,
    /// The id of its job.
    pub job: String,
    /// The state of the job; null if it has left no record, or if none was submitted because the recurring job was paused.
    pub state: Option<&'static str>,
}

/// Lists the last ticks of a recurring job that were handled, newest first: `count` of them at most.
///
/// # Errors
///
/// [`Error::NotFound`] if there is none of this name; [`Error::Conflict`] if this version cannot read it; [`Error::Redis`].
pub async fn ticks(queue: &Queue, name: &CronName, count: usize) -> Result<List<RecurringTick>, Error> {
    let failed = format!("failed to read the recurring jobs of the queue {}", queue.name());
    let table = queue.cron().table().await.map_err(Error::redis(failed))?;
    let none = || format!("the queue {} has no recurring job {name}", queue.name());
    let found = table.entries.into_iter().find(|status| status.name == *name);
    let status = found.ok_or_else(|| Error::NotFound(none()))?;
    let entry = status.entry.map_err(|error| Error::Conflict(error.to_string()))?;
    let last = entry.schedule().last(count, Timestamp::default(), status.handled);
    let looking: Vec<_> = last.into_iter().rev().map(|at| tick(queue, &entry, at)).collect();
    Ok(List::from(join_all(looking).await))
}

/// Looks up the job of a tick. One that cannot be read is not known.
async fn tick(queue: &Queue, entry: &Entry, at: Timestamp) -> RecurringTick {
    let job = entry.job_id(at);
    let found = queue.status(&job).await.ok().flatten();
    let state = found.map(|status| status.state.as_str());
    RecurringTick { at: rfc3339(at), at_ms: at.as_ms(), job: job.to_string(), state }
}
