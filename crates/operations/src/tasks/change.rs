//! Pausing, resuming, stopping and undoing tasks.

use streamfleet::Queue;
use streamfleet_engine::admin::Noted;

use super::TaskReport;
use super::list::show;
use super::start::{refused, reported};
use crate::{Actor, Error, TASKS_PAUSE, TASKS_RESUME, TASKS_STOP, TASKS_UNDO};

/// What a person wants of a task that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// To change nothing until somebody resumes it. What it has changed stays as it is, and jobs that it has replayed go on.
    Pause,
    /// To go on after it was paused.
    Resume,
    /// To change nothing ever again. What it has changed stays as it is, and jobs that it has replayed go on.
    Stop,
}

/// Pauses, resumes or stops a task.
///
/// # Errors
///
/// [`Error::NotFound`]; [`Error::Conflict`] if it is over, or already as it is wanted; [`Error::Redis`].
pub async fn change(
    queue: &Queue,
    actor: &Actor,
    id: &str,
    order: Order,
) -> Result<Noted<TaskReport>, Error> {
    let tasks = queue.tasks();
    let changed = match order {
        Order::Pause => tasks.pause(id, &actor.action(&TASKS_PAUSE)).await,
        Order::Resume => tasks.resume(id, &actor.action(&TASKS_RESUME)).await,
        Order::Stop => tasks.stop(id, &actor.action(&TASKS_STOP)).await,
    };
    let changed = changed.map_err(|error| refused(queue, id, error))?;
    let report = show(queue, id).await?;
    Ok(changed.map(|()| report))
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
