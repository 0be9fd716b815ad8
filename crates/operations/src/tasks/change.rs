//! Pausing, resuming, stopping and undoing tasks.

use streamfleet::Queue;
use streamfleet_engine::admin::{Noted, TaskError};

use super::TaskReport;
use super::list::show;
use super::start::{refused, reported};
use crate::{Actor, Error, TASKS_PAUSE, TASKS_RESUME, TASKS_STOP, TASKS_UNDO};

/// Pauses a task. What it has changed stays as it is, and jobs that it has replayed go on.
///
/// # Errors
///
/// [`Error::NotFound`]; [`Error::Conflict`] if it is paused already, or over; [`Error::Redis`].
pub async fn pause(queue: &Queue, actor: &Actor, id: &str) -> Result<Noted<TaskReport>, Error> {
    let paused = queue.tasks().pause(id, &actor.action(&TASKS_PAUSE)).await;
    changed(queue, id, paused).await
}

/// Continues a task that was paused.
///
/// # Errors
///
/// [`Error::NotFound`]; [`Error::Conflict`] if it is not paused; [`Error::Redis`].
pub async fn resume(queue: &Queue, actor: &Actor, id: &str) -> Result<Noted<TaskReport>, Error> {
    let resumed = queue.tasks().resume(id, &actor.action(&TASKS_RESUME)).await;
    changed(queue, id, resumed).await
}

/// Stops a task for good. What it has changed stays as it is, and jobs that it has replayed go on.
///
/// # Errors
///
/// [`Error::NotFound`]; [`Error::Conflict`] if it is over; [`Error::Redis`].
pub async fn stop(queue: &Queue, actor: &Actor, id: &str) -> Result<Noted<TaskReport>, Error> {
    let stopped = queue.tasks().stop(id, &actor.action(&TASKS_STOP)).await;
    changed(queue, id, stopped).await
}

/// Begins a task that moves back what a move has moved and what still waits or is due later in the other queue.
///
/// # Errors
///
/// [`Error::NotFound`]; [`Error::Conflict`] if it is not a move, or not over; [`Error::Redis`].
pub async fn undo(queue: &Queue, actor: &Actor, id: &str) -> Result<Noted<TaskReport>, Error> {
    let action = actor.action(&TASKS_UNDO).target(format!("task {id}"));
    let begun = queue.tasks().undo(id, &action).await;
    reported(queue, begun.map_err(|error| refused(queue, id, error))?).await
}

/// Reports on a task whose state was changed.
async fn changed(
    queue: &Queue,
    id: &str,
    done: Result<Noted<()>, TaskError>,
) -> Result<Noted<TaskReport>, Error> {
    let done = done.map_err(|error| refused(queue, id, error))?;
    let report = show(queue, id).await?;
    Ok(done.map(|()| report))
}
