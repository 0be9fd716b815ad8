//! The fleet: workers, batches, and whether the console is up.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use streamfleet::job::{BatchId, QueueName};
use streamfleet_operations as operations;
use streamfleet_operations::jobs::{Batch, batch};
use streamfleet_operations::workers::{self, WorkerList};
use utoipa_axum::routes;

use super::path_params::PathParams;
use super::privacy::View;
use crate::console::access::{Needs, Person, Role};
use crate::console::app_state::AppState;
use crate::console::problem::Problem;
use crate::console::routes::Routes;

/// How long Redis may take to answer a probe.
const PROBE: Duration = Duration::from_secs(2);

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::WORKERS_LIST, routes!(list_workers))
        .operation(&operations::BATCH, routes!(get_batch))
        .describe(routes!(healthz), Needs::Nothing)
}

/// Lists the live workers, and consumers of earlier workers that still have jobs.
///
/// A worker is listed if it serves a queue that you may see.
#[utoipa::path(get, path = "/api/v1/workers", tag = "workers",
    responses((status = 200, description = "The workers", body = WorkerList)))]
async fn list_workers(State(app): State<AppState>, person: Person) -> Result<Json<Value>, Problem> {
    let (mut report, missing) = workers::list(app.broker()).await?;
    for server in missing {
        tracing::warn!(%server, "some workers are not listed");
    }
    let is_shown =
        |queue: &str| queue.parse::<QueueName>().is_ok_and(|queue| person.may(Role::Viewer, &queue));
    report.items.retain_mut(|worker| worker.retain(is_shown));
    report.facts.retain(is_shown);
    View::of(&person, &app).json(&report)
}

/// Shows the progress of a batch, and what it waits for.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/batches/{batch}", tag = "jobs",
    responses((status = 200, description = "The batch", body = Batch)))]
async fn get_batch(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
) -> Result<Json<Value>, Problem> {
    let (queue, name) = (path.queue(&app)?, path.get::<BatchId>("batch")?);
    View::of(&person, &app).json(&batch(&queue, &name).await?)
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
    let unwell = |why: String| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "redis failed", why);
    match tokio::time::timeout(PROBE, app.broker().ping()).await {
        Ok(Ok(())) => Ok(Json(Health { status: "ok" })),
        // Anybody may ask, so the answer does not say which server it is.
        Ok(Err(_)) => Err(unwell("redis refuses the console, or cannot be reached".to_owned())),
        Err(_) => Err(unwell(format!("redis did not answer within {} s", PROBE.as_secs()))),
    }
}
