//! Pausing, resuming, running and removing a recurring job.

use serde::Serialize;
use streamfleet::job::CronName;
use streamfleet::{Queue, RedisError};
use streamfleet_engine::admin::{CronStatus, Noted};

use crate::{Actor, CRON_PAUSE, CRON_REMOVE, CRON_RESUME, CRON_RUN, Error, Operation};

/// What became of a recurring job.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct RecurringChanged {
    /// The recurring job.
    pub name: String,
    /// The queue.
    pub queue: String,
    /// `paused`, `resumed`, `submitted` or `removed`.
    pub done: &'static str,
    /// False if it was already so.
    pub changed: bool,
    /// The job that was submitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// Pauses a recurring job: it submits nothing until it is resumed.
///
/// # Errors
///
/// [`Error::NotFound`], [`Error::Redis`].
pub async fn pause(queue: &Queue, actor: &Actor, name: &CronName) -> Result<Noted<RecurringChanged>, Error> {
    let paused = queue.cron().pause(name).await.map_err(failed(name, "paused"))?;
    let report = paused.map(|changed| report(queue, name, "paused", changed));
    noted((queue, name), (actor, &CRON_PAUSE), report).await
}

/// Resumes a paused recurring job from now on. Ticks that were due meanwhile are not made up for.
///
/// # Errors
///
/// [`Error::NotFound`], [`Error::Redis`].
pub async fn resume(queue: &Queue, actor: &Actor, name: &CronName) -> Result<Noted<RecurringChanged>, Error> {
    let resumed = queue.cron().resume(name).await.map_err(failed(name, "resumed"))?;
    let report = resumed.map(|changed| report(queue, name, "resumed", changed));
    noted((queue, name), (actor, &CRON_RESUME), report).await
}

/// Submits one job now, regardless of the schedule, even if the recurring job is paused.
///
/// # Errors
///
/// [`Error::NotFound`], [`Error::Redis`].
pub async fn run(queue: &Queue, actor: &Actor, name: &CronName) -> Result<Noted<RecurringChanged>, Error> {
    let submitted = queue.cron().run(name).await.map_err(failed(name, "submitted"))?;
    let report = submitted.map(|id| {
        let id = Some(id.to_string());
        RecurringChanged { id, ..report(queue, name, "submitted", true) }
    });
    noted((queue, name), (actor, &CRON_RUN), report).await
}

/// Removes a recurring job. Jobs that it has submitted stay.
///
/// # Errors
///
/// [`Error::NotFound`], [`Error::Redis`].
pub async fn remove(queue: &Queue, actor: &Actor, name: &CronName) -> Result<Noted<RecurringChanged>, Error> {
    let removed = queue.cron().remove(name).await.map_err(failed(name, "removed"))?;
    let report = removed.then(|| report(queue, name, "removed", true));
    noted((queue, name), (actor, &CRON_REMOVE), report).await
}

/// Says what Redis may or may not have done.
fn failed(name: &CronName, done: &str) -> impl FnOnce(RedisError) -> Error {
    Error::unsure(format!("the recurring job {name} may or may not be {done}"))
}

/// Notes a change that has taken place. Without a report, there is no such recurring job.
async fn noted(
    (queue, name): (&Queue, &CronName),
    (actor, operation): (&Actor, &Operation),
    report: Option<RecurringChanged>,
) -> Result<Noted<RecurringChanged>, Error> {
    match report {
        Some(report) if report.changed => {
            Ok(queue.audit().noted(&actor.action(operation).target(name.to_string()), report).await)
        }
        Some(report) => Ok(Noted::of_nothing(report)),
        None => Err(unknown(queue, name).await),
    }
}

/// Says that there is no such recurring job, and which ones there are.
async fn unknown(queue: &Queue, name: &CronName) -> Error {
    let table = match queue.cron().table().await {
        Ok(table) => table,
        Err(error) => return Error::redis("failed to list the recurring jobs")(error),
    };
    let names: Vec<String> = table.entries.iter().map(|CronStatus { name, .. }| name.to_string()).collect();
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Error::NotFound(format!("the queue {} has no recurring job {name}; it has: {known}", queue.name()))
}

fn report(queue: &Queue, name: &CronName, done: &'static str, changed: bool) -> RecurringChanged {
    RecurringChanged { name: name.to_string(), queue: queue.name().to_string(), done, changed, id: None }
}
