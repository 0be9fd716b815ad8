//! Tasks: work on many jobs or dead letters that goes on after the request that began it.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use streamfleet::Queue;
use streamfleet_engine::admin::{BulkAction, TaskAction, TaskCursor};
use streamfleet_operations::tasks::{self, Order, TaskList, TaskReport};
use utoipa_axum::routes;

use super::changes::Reason;
use super::{Answer, Call, JsonBody, PageParams, Problem, QueryParams, Routes, done, link, operations};

use crate::console::access::Role;

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::TASKS_LIST, routes!(list_tasks))
        .operation(&operations::TASKS_SHOW, routes!(get_task))
        .operation(&operations::TASKS_PAUSE, routes!(pause_task))
        .operation(&operations::TASKS_RESUME, routes!(resume_task))
        .operation(&operations::TASKS_STOP, routes!(stop_task))
        .operation(&operations::TASKS_UNDO, routes!(undo_task))
}

/// Answers that a task has begun or goes on, and carries it on: a queue that no worker serves has nobody else who does.
pub(super) fn begun(call: &Call, queue: &Queue, task: &TaskReport) -> Result<Response, Problem> {
    // One that watches how its jobs end belongs to the workers, who run them.
    if task.needs_somebody() && !task.is_watched() {
        call.app.work_limits.carry_on(queue.clone(), task.id.clone(), call.app.stopping.clone());
    }
    let place = link::to(&["queues", &task.queue, "tasks", &task.id]);
    Ok((StatusCode::ACCEPTED, [(header::LOCATION, place)], call.answer(task)?).into_response())
}

/// Lists the tasks, newest first. Those that are over are listed for 30 days.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/tasks", tag = "tasks", params(PageParams),
    responses((status = 200, description = "A page of tasks", body = TaskList)))]
async fn list_tasks(call: Call, QueryParams(asked): QueryParams<PageParams>) -> Answer {
    let (queue, after) = (call.queue()?, asked.after::<TaskCursor>()?);
    let page = tasks::list(&queue, after.as_ref(), asked.limit()).await?;
    call.list(&queue, &page).await
}

/// Shows how a task fares.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/tasks/{task}", tag = "tasks",
    responses((status = 200, description = "The task", body = TaskReport)))]
async fn get_task(call: Call) -> Answer {
    let (queue, id) = named(&call)?;
    call.answer(&tasks::show(&queue, &id).await?)
}

/// The queue and the task that a path names.
fn named(call: &Call) -> Result<(Queue, String), Problem> {
    Ok((call.queue()?, call.path("task")?))
}

/// Reads a task that somebody wants to change, who must have the role on every queue that it changes: the path names only one of the two
/// of a move.
async fn changeable(call: &Call) -> Result<(Queue, String), Problem> {
    let (queue, id) = named(call)?;
    let task = tasks::show(&queue, &id).await?.task;
    if let TaskAction::Change(BulkAction::Move(to)) = &task.action {
        call.person.check(Role::Operator, Some(to))?;
    }
    call.person.check(Role::Operator, Some(&task.from))?;
    Ok((queue, id))
}

/// Changes the state of a task.
async fn change(call: &Call, order: Order, reason: &str) -> Result<(Queue, TaskReport), Problem> {
    let (queue, id) = changeable(call).await?;
    let task = done(tasks::change(&queue, &call.actor(reason), &id, order).await)?;
    Ok((queue, task))
}

/// Pauses a task. What it has changed stays as it is, and jobs that it has replayed go on.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/tasks/{task}/pause", tag = "tasks", request_body = Reason,
    responses((status = 200, description = "The task", body = TaskReport)))]
async fn pause_task(call: Call, JsonBody(Reason { reason }): JsonBody<Reason>) -> Answer {
    let (_, task) = change(&call, Order::Pause, &reason).await?;
    call.answer(&task)
}

/// Continues a task that was paused.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/tasks/{task}/resume", tag = "tasks", request_body = Reason,
    responses((status = 202, description = "The task, which goes on", body = TaskReport,
        headers(("Location" = String, description = "Where to see how it fares")))))]
async fn resume_task(call: Call, JsonBody(Reason { reason }): JsonBody<Reason>) -> Result<Response, Problem> {
    let (queue, task) = change(&call, Order::Resume, &reason).await?;
    begun(&call, &queue, &task)
}

/// Stops a task for good. What it has changed stays as it is, and jobs that it has replayed go on.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/tasks/{task}/stop", tag = "tasks", request_body = Reason,
    responses((status = 200, description = "The task", body = TaskReport)))]
async fn stop_task(call: Call, JsonBody(Reason { reason }): JsonBody<Reason>) -> Answer {
    let (_, task) = change(&call, Order::Stop, &reason).await?;
    call.answer(&task)
}

/// Moves back what a task has moved and what still waits or is due later in the other queue.
///
/// The task must be a move, and over. Another task does it. This needs the role on both queues.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/tasks/{task}/undo", tag = "tasks", request_body = Reason,
    responses((status = 202, description = "The task that moves them back", body = TaskReport,
        headers(("Location" = String, description = "Where to see how it fares")))))]
async fn undo_task(call: Call, JsonBody(Reason { reason }): JsonBody<Reason>) -> Result<Response, Problem> {
    let (queue, id) = changeable(&call).await?;
    let task = done(tasks::undo(&queue, &call.actor(&reason), &id).await)?;
    begun(&call, &queue, &task)
}
