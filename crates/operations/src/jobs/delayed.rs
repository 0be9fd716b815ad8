//! Delayed jobs and retries: which they are, and how one of them is changed or made due.

use serde::Serialize;
use streamfleet::job::{JobId, Timestamp};
use streamfleet::{Producer, Queue, SubmitError};
use streamfleet_engine::admin::{Action, Amended, DelayedEdit, DelayedJob, Due, Noted, Upcoming};

use super::{find, unknown};
use crate::times::rfc3339;
use crate::{Actor, DELAYED_EDIT, Error, List, RUN_NOW};

/// What the error says if Redis fails.
const NOT_READ: &str = "failed to read the delayed jobs";

/// A page of the delayed jobs, the next due first. `next` is how many to skip for the next page.
pub type DelayedList = List<Delayed, DelayedFacts, u64>;

/// What is known about all delayed jobs of a queue.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct DelayedFacts {
    /// The queue.
    pub queue: String,
    /// How many they are.
    pub total: u64,
}

/// A delayed job, or a retry.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = DelayedJob)]
#[non_exhaustive]
pub struct Delayed {
    /// Its id.
    pub id: String,
    /// Its type; empty if its fields cannot be read.
    #[serde(rename = "type")]
    pub job_type: String,
    /// Its lane; null if its fields cannot be read.
    pub lane: Option<&'static str>,
    /// When it is due.
    pub due: String,
    /// When it is due, in milliseconds since 1970.
    pub due_ms: u64,
    /// How many attempts have failed so far.
    pub failures: u64,
}

/// A delayed job after a change.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Amended)]
#[non_exhaustive]
pub struct Changed {
    /// Its id.
    pub id: String,
    /// The queue.
    pub queue: String,
    /// When it is due.
    pub due: String,
    /// When it is due, in milliseconds since 1970.
    pub due_ms: u64,
}

/// How a delayed job is changed.
#[derive(Clone, Copy)]
pub struct Edit<'a> {
    /// The job as it was read.
    pub job: &'a DelayedJob,
    /// What to change.
    pub changes: &'a DelayedEdit,
    /// The producer of its queue, with the limit and the schemas that a new payload must fit.
    pub producer: &'a Producer,
}

/// Lists the delayed jobs of a queue after the first `skip`, with the time by Redis's clock.
///
/// # Errors
///
/// [`Error::Redis`].
pub async fn list(queue: &Queue, skip: u64, limit: u64) -> Result<(DelayedList, Timestamp), Error> {
    let upcoming = queue.delayed().page(skip, limit).await.map_err(Error::redis(NOT_READ))?;
    let snapshot = queue.snapshot().await.map_err(Error::redis("failed to count the delayed jobs"))?;
    let end = skip + upcoming.len() as u64;
    let page = DelayedList {
        next: (end < snapshot.delayed && !upcoming.is_empty()).then_some(end),
        items: upcoming.into_iter().map(delayed).collect(),
        facts: DelayedFacts { queue: queue.name().to_string(), total: snapshot.delayed },
        former: Some("jobs"),
    };
    Ok((page, snapshot.now))
}

/// Reads the delayed job with this id, or with this entry id that `XADD` returned.
///
/// # Errors
///
/// [`Error::Conflict`] if the job is not delayed; [`Error::NotFound`] if the queue does not know it; [`Error::Redis`].
pub async fn read(queue: &Queue, id: &JobId) -> Result<DelayedJob, Error> {
    if let Some(job) = queue.delayed().get(id).await.map_err(Error::redis(NOT_READ))? {
        return Ok(job);
    }
    let Some(status) = find(queue, id).await? else { return Err(unknown(queue, id).await) };
    let job = queue.delayed().get(&status.id).await.map_err(Error::redis(NOT_READ))?;
    job.ok_or_else(|| {
        Error::Conflict(format!(
            "{id} is {}: only a job that is delayed or waits for its retry can be changed",
            status.state
        ))
    })
}

/// Changes when a delayed job is due, or its payload, or both in one step. Everything else stays as it is, also its attempts.
///
/// # Errors
///
/// [`Error::Changed`] if somebody else has changed it since it was read; [`Error::Conflict`] if it is no longer delayed;
/// [`Error::Invalid`] and [`Error::Unfit`] if the payload cannot be used; [`Error::Redis`].
pub async fn edit(queue: &Queue, actor: &Actor, input: &Edit<'_>) -> Result<Noted<Changed>, Error> {
    let amended = input.producer.amend(input.job, input.changes).await.map_err(refused)?;
    changed(queue, actor.action(&DELAYED_EDIT), input.job, amended).await
}

/// Makes a delayed job due at once.
///
/// # Errors
///
/// [`Error::Changed`] if somebody else has changed it since it was read; [`Error::Conflict`] if it is no longer delayed;
/// [`Error::Redis`].
pub async fn run_now(queue: &Queue, actor: &Actor, job: &DelayedJob) -> Result<Noted<Changed>, Error> {
    let amended = queue.amend_as_read(job, &DelayedEdit::default().due(Due::Now)).await;
    let amended = amended.map_err(Error::unsure("the job may or may not be due now"))?;
    changed(queue, actor.action(&RUN_NOW), job, amended).await
}

/// Notes a change of a job, if there was one.
async fn changed(
    queue: &Queue,
    action: Action,
    job: &DelayedJob,
    amended: Amended,
) -> Result<Noted<Changed>, Error> {
    let due = match amended {
        Amended::Done(due) => due,
        Amended::Changed => return Err(Error::Changed),
        Amended::Gone => {
            return Err(Error::Conflict(format!("{} is no longer delayed: nothing was changed", job.id)));
        }
    };
    let changed = Changed {
        id: job.id.to_string(),
        queue: queue.name().to_string(),
        due: rfc3339(due),
        due_ms: due.as_ms(),
    };
    let action = action.target(job.id.to_string()).count(1).outcome("done");
    Ok(queue.audit().noted(&action, changed).await)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "every other error is about the payload")]
fn refused(error: SubmitError) -> Error {
    let why = error.to_string();
    match error {
        SubmitError::Broker(error) => Error::unsure("the job may or may not be changed")(error),
        SubmitError::InvalidPayload { invalid, .. } => Error::Unfit { why, invalid },
        _ => Error::invalid("payload", why),
    }
}

fn delayed(upcoming: Upcoming) -> Delayed {
    let (lane, fields) = upcoming.fields.unzip();
    let text = |name: &str| {
        let value = fields.as_ref().and_then(|fields| fields.get(name.as_bytes())).unwrap_or_default();
        String::from_utf8_lossy(value).into_owned()
    };
    Delayed {
        id: upcoming.id,
        job_type: text("type"),
        lane: lane.map(|lane| lane.as_str()),
        due: rfc3339(upcoming.due),
        due_ms: upcoming.due.as_ms(),
        failures: text("attempt").parse().unwrap_or(0),
    }
}
