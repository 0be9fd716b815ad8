//! The fleet: workers, draining them, batches, and whether the console is up.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use streamfleet::job::{BatchId, ConsumerName, QueueName};
use streamfleet_operations::jobs::{Batch, batch};
use streamfleet_operations::workers::{self, Order, WorkerAsked, WorkerList};
use utoipa_axum::routes;

use super::query::ReasonParams;
use super::{Answer, Call, JsonBody, Problem, ProblemKind, QueryParams, Routes, operations};
use crate::console::access::{Needs, Role};
use crate::console::app_state::AppState;

/// How long Redis may take to answer a probe.
const PROBE: Duration = Duration::from_secs(2);

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::WORKERS_LIST, routes!(list_workers))
        .operation(&operations::WORKERS_DRAIN, routes!(drain_worker))
        .operation(&operations::WORKERS_RESUME, routes!(resume_worker))
        .operation(&operations::BATCH, routes!(get_batch))
        .describe(routes!(healthz), Needs::Nothing)
}

/// Lists the live workers, and consumers of earlier workers that still have jobs.
///
/// A worker is listed if it serves a queue that you may see.
#[utoipa::path(get, path = "/api/v1/workers", tag = "workers",
    responses((status = 200, description = "The workers", body = WorkerList)))]
async fn list_workers(call: Call) -> Answer {
    let (mut report, missing) = workers::list(&call.app.broker).await?;
    for server in missing {
        tracing::warn!(%server, "some workers are not listed");
    }
    let is_shown =
        |queue: &str| queue.parse::<QueueName>().is_ok_and(|queue| call.person.may(Role::Viewer, &queue));
    report.items.retain_mut(|worker| worker.retain(is_shown));
    report.facts.retain(is_shown);
    call.answer(&report)
}

/// Shows the progress of a batch, and what it waits for.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/batches/{batch}", tag = "jobs",
    responses((status = 200, description = "The batch", body = Batch)))]
async fn get_batch(call: Call) -> Answer {
    let (queue, name) = (call.queue()?, call.path::<BatchId>("batch")?);
    call.answer(&batch(&queue, &name).await?)
}

/// Whether the console can serve.
#[derive(Serialize, utoipa::ToSchema)]
struct Health {
    /// `ok`.
    status: &'static str,
}

/// Answers probes: 200 if Redis answers, else 503.
#[utoipa::path(get, path = "/healthz", tag = "console",
    responses((status = 200, description = "The console can serve", body = Health)))]
async fn healthz(State(app): State<AppState>) -> Result<Json<Health>, Problem> {
    let unwell = |why: String| Problem::new(ProblemKind::RedisFailed, why);
    match tokio::time::timeout(PROBE, app.broker.ping()).await {
        Ok(Ok(())) => Ok(Json(Health { status: "ok" })),
        // Anybody may ask, so the answer does not say which server it is.
        Ok(Err(_)) => Err(unwell("redis refuses the console, or cannot be reached".to_owned())),
        Err(_) => Err(unwell(format!("redis did not answer within {} s", PROBE.as_secs()))),
    }
}

/// How to drain a worker.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewWorkerDrain, examples(json!({"reason": "its disk is failing"})))]
struct Drain {
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
#[utoipa::path(post, path = "/api/v1/workers/{worker}/drain", tag = "workers", request_body = Drain,
    responses((status = 200, description = "What the worker was asked for", body = WorkerAsked),
        (status = 409, description = "The worker is of a version that cannot be drained")))]
async fn drain_worker(call: Call, JsonBody(sent): JsonBody<Drain>) -> Answer {
    give(&call, Order::Drain { exit: sent.exit }, &sent.reason).await
}

/// Lets a worker that drains take jobs again.
#[utoipa::path(delete, path = "/api/v1/workers/{worker}/drain", tag = "workers", params(ReasonParams),
    responses((status = 200, description = "What the worker was asked for", body = WorkerAsked),
        (status = 409, description = "The worker is of a version that cannot be drained")))]
async fn resume_worker(
    call: Call,
    QueryParams(ReasonParams { reason }): QueryParams<ReasonParams>,
) -> Answer {
    give(&call, Order::Resume, &reason).await
}

/// Gives an order to a worker, if the person has the role on all of its queues.
async fn give(call: &Call, order: Order, reason: &str) -> Answer {
    let name: ConsumerName = call.path("worker")?;
    let none = || Problem::not_found(format!("there is no live worker {name}"));
    let known = workers::look_up(&call.app.broker, &name).await?.ok_or_else(none)?;
    if !workers::queues_of(&known).any(|queue| call.person.may(Role::Viewer, &queue)) {
        return Err(none());
    }
    if !workers::queues_of(&known).all(|queue| call.person.may(Role::Operator, &queue)) {
        let why = format!("this needs the role operator on all queues that {name} serves");
        return Err(Problem::new(ProblemKind::NotAllowed, why));
    }
    call.done(workers::ask(&call.app.broker, &call.actor(reason), &name, order).await)
}
