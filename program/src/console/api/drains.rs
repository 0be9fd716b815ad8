//! Draining a worker, and letting it take jobs again.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use streamfleet::job::ConsumerName;
use streamfleet_operations::workers::{self, Order, WorkerAsked};
use streamfleet_operations::{self as operations, Actor};
use utoipa_axum::routes;

use super::failure::done;
use super::json_body::JsonBody;
use super::path_params::PathParams;
use super::privacy::View;
use super::query::{QueryParams, ReasonParams};
use crate::console::access::{Person, Role};
use crate::console::app_state::AppState;
use crate::console::problem::Problem;
use crate::console::routes::Routes;

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::WORKERS_DRAIN, routes!(drain_worker))
        .operation(&operations::WORKERS_RESUME, routes!(resume_worker))
}

/// How to drain a worker.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewWorkerDrain, examples(json!({"reason": "its disk is failing"})))]
struct Wanted {
    /// End the process once nothing runs. Most service managers start a new one in its place, which takes jobs.
    #[serde(default)]
    exit: bool,
    /// Why it is done, for the list of workers and the audit.
    #[serde(default)]
    reason: String,
}

/// Keeps a worker from taking jobs.
///
/// It gives back what it has not started, and finishes what runs. It hears of this with its next beat: `drain.heard` in the list of
/// workers says whether it has. It needs the role on all queues that the worker serves. The request is for the one process of this
/// name.
#[utoipa::path(post, path = "/api/v1/workers/{worker}/drain", tag = "workers", request_body = Wanted,
    responses((status = 200, description = "What the worker was asked for", body = WorkerAsked),
        (status = 409, description = "The worker is of a version that cannot be drained")))]
async fn drain_worker(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
    JsonBody(sent): JsonBody<Wanted>,
) -> Result<Json<Value>, Problem> {
    give((&app, &person), &path.get("worker")?, Order::Drain { exit: sent.exit }, &sent.reason).await
}

/// Lets a worker that drains take jobs again.
#[utoipa::path(delete, path = "/api/v1/workers/{worker}/drain", tag = "workers", params(ReasonParams),
    responses((status = 200, description = "What the worker was asked for", body = WorkerAsked),
        (status = 409, description = "The worker is of a version that cannot be drained")))]
async fn resume_worker(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
    QueryParams(ReasonParams { reason }): QueryParams<ReasonParams>,
) -> Result<Json<Value>, Problem> {
    give((&app, &person), &path.get("worker")?, Order::Resume, &reason).await
}

/// Gives an order to a worker, if the person has the role on all of its queues.
async fn give(
    (app, person): (&AppState, &Person),
    name: &ConsumerName,
    order: Order,
    reason: &str,
) -> Result<Json<Value>, Problem> {
    let none = || Problem::not_found(format!("there is no live worker {name}"));
    let known = workers::look_up(app.broker(), name).await?.ok_or_else(none)?;
    if !workers::queues_of(&known).any(|queue| person.may(Role::Viewer, &queue)) {
        return Err(none());
    }
    if !workers::queues_of(&known).all(|queue| person.may(Role::Operator, &queue)) {
        let why = format!("this needs the role operator on all queues that {name} serves");
        return Err(Problem::new(StatusCode::FORBIDDEN, "not allowed", why));
    }
    let actor = Actor::new(person.name(), reason);
    let asked = done(workers::ask(app.broker(), &actor, name, order).await)?;
    View::of(person, app).json(&asked)
}
