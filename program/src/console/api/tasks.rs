//! Tasks: work on many jobs or dead letters that goes on after the request that began it.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;
use streamfleet::Queue;
use streamfleet_engine::admin::{BulkAction, TaskAction, TaskCursor};
use streamfleet_operations::tasks::{self, Order, TaskList, TaskReport};
use streamfleet_operations::{self as operations, Actor};
use utoipa_axum::routes;

use super::changes::Reason;
use super::failure::done;
use super::json_body::JsonBody;
use super::link;
use super::names;
use super::path_params::PathParams;
use super::privacy::View;
use super::query::{PageParams, QueryParams};
use crate::console::access::{Person, Role};
use crate::console::app_state::AppState;
use crate::console::problem::Problem;
use crate::console::routes::Routes;

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
pub(super) fn begun(
    app: &AppState,
    view: &View<'_>,
    (queue, task): (&Queue, &TaskReport),
) -> Result<Response, Problem> {
    carry_on(app, queue, task);
    let place = link::to(&["queues", &task.queue, "tasks", &task.id]);
    Ok((StatusCode::ACCEPTED, [(header::LOCATION, place)], view.json(task)?).into_response())
}

/// Carries a task on in the background. One that watches how its jobs end belongs to the workers, who run them.
fn carry_on(app: &AppState, queue: &Queue, task: &TaskReport) {
    if task.needs_somebody() && !task.is_watched() {
        app.work_limits().carry_on(queue.clone(), task.id.clone(), app.stopping().clone());
    }
}

/// Lists the tasks, newest first. Those that are over are listed for 30 days.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/tasks", tag = "tasks", params(PageParams),
    responses((status = 200, description = "A page of tasks", body = TaskList)))]
async fn list_tasks(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
    QueryParams(asked): QueryParams<PageParams>,
) -> Result<Json<Value>, Problem> {
    let (queue, after) = (path.queue(&app)?, asked.after::<TaskCursor>()?);
    let page = tasks::list(&queue, after.as_ref(), asked.limit()).await?;
    if page.items.is_empty() {
        names::must_have(&app, queue.name()).await?;
    }
    View::of(&person, &app).json(&page)
}

/// Shows how a task fares.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/tasks/{task}", tag = "tasks",
    responses((status = 200, description = "The task", body = TaskReport)))]
async fn get_task(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
) -> Result<Json<Value>, Problem> {
    let (queue, id) = named(&app, &path)?;
    View::of(&person, &app).json(&tasks::show(&queue, &id).await?)
}

/// The queue and the task that a path names.
fn named(app: &AppState, path: &PathParams) -> Result<(Queue, String), Problem> {
    Ok((path.queue(app)?, path.get::<String>("task")?))
}

/// Reads a task that somebody wants to change, who must have the role on every queue that it changes: the path names only one of the two
/// of a move.
async fn changeable(app: &AppState, person: &Person, path: &PathParams) -> Result<(Queue, String), Problem> {
    let (queue, id) = named(app, path)?;
    let task = tasks::show(&queue, &id).await?.task;
    if let TaskAction::Change(BulkAction::Move(to)) = &task.action {
        person.check(Role::Operator, Some(to))?;
    }
    person.check(Role::Operator, Some(&task.from))?;
    Ok((queue, id))
}

/// Changes the state of a task.
async fn change(
    (app, person, path): (&AppState, &Person, &PathParams),
    order: Order,
    reason: &str,
) -> Result<(Queue, TaskReport), Problem> {
    let (queue, id) = changeable(app, person, path).await?;
    let task = done(tasks::change(&queue, &Actor::new(person.name(), reason), &id, order).await)?;
    Ok((queue, task))
}

/// Pauses a task. What it has changed stays as it is, and jobs that it has replayed go on.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/tasks/{task}/pause", tag = "tasks", request_body = Reason,
    responses((status = 200, description = "The task", body = TaskReport)))]
async fn pause_task(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
    JsonBody(Reason { reason }): JsonBody<Reason>,
) -> Result<Json<Value>, Problem> {
    let (_, task) = change((&app, &person, &path), Order::Pause, &reason).await?;
    View::of(&person, &app).json(&task)
}

/// Continues a task that was paused.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/tasks/{task}/resume", tag = "tasks", request_body = Reason,
    responses((status = 202, description = "The task, which goes on", body = TaskReport,
        headers(("Location" = String, description = "Where to see how it fares")))))]
async fn resume_task(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
    JsonBody(Reason { reason }): JsonBody<Reason>,
) -> Result<Response, Problem> {
    let (queue, task) = change((&app, &person, &path), Order::Resume, &reason).await?;
    begun(&app, &View::of(&person, &app), (&queue, &task))
}

/// Stops a task for good. What it has changed stays as it is, and jobs that it has replayed go on.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/tasks/{task}/stop", tag = "tasks", request_body = Reason,
    responses((status = 200, description = "The task", body = TaskReport)))]
async fn stop_task(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
    JsonBody(Reason { reason }): JsonBody<Reason>,
) -> Result<Json<Value>, Problem> {
    let (_, task) = change((&app, &person, &path), Order::Stop, &reason).await?;
    View::of(&person, &app).json(&task)
}

/// Moves back what a task has moved and what still waits or is due later in the other queue.
///
/// The task must be a move, and over. Another task does it. This needs the role on both queues.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/tasks/{task}/undo", tag = "tasks", request_body = Reason,
    responses((status = 202, description = "The task that moves them back", body = TaskReport,
        headers(("Location" = String, description = "Where to see how it fares")))))]
async fn undo_task(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
    JsonBody(Reason { reason }): JsonBody<Reason>,
) -> Result<Response, Problem> {
    let (queue, id) = changeable(&app, &person, &path).await?;
    let task = done(tasks::undo(&queue, &Actor::new(person.name(), &reason), &id).await)?;
    begun(&app, &View::of(&person, &app), (&queue, &task))
}
