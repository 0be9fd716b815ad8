//! The fleet: workers, what people did, batches, and whether the console is up.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use streamfleet::job::{BatchId, EntryId, QueueName};
use utoipa_axum::routes;

use super::failure::failed;
use super::names;
use super::place::Place;
use super::privacy::View;
use super::query::{PageParams, QueryParams};
use crate::audit;
use crate::batch;
use crate::console::access::{Needs, Person, Role};
use crate::console::problem::Problem;
use crate::console::routes::Routes;
use crate::console::site::Site;
use crate::workers;

/// How long Redis may take to answer a probe.
const PROBE: Duration = Duration::from_secs(2);

pub(super) fn routes() -> Routes {
    Routes::default()
        .describe(routes!(list_workers), Needs::Role(Role::Viewer))
        .describe(routes!(list_audit), Needs::Role(Role::Viewer))
        .describe(routes!(get_batch), Needs::Role(Role::Viewer))
        .describe(routes!(healthz), Needs::Nothing)
}

/// Lists the live workers, and consumers of earlier workers that still have jobs.
///
/// A worker is listed if it serves a queue that you may see.
#[utoipa::path(get, path = "/api/v1/workers", tag = "workers",
    responses((status = 200, description = "The workers", body = workers::Report)))]
async fn list_workers(State(site): State<Site>, person: Person) -> Result<Json<Value>, Problem> {
    let (mut report, missing) = workers::page(site.broker()).await.map_err(failed)?;
    for server in missing {
        tracing::warn!(%server, "some workers are not listed");
    }
    let is_shown =
        |queue: &str| queue.parse::<QueueName>().is_ok_and(|queue| person.may(Role::Viewer, &queue));
    report.items.retain_mut(|worker| worker.retain(is_shown));
    report.facts.retain(is_shown);
    View::of(&person, &site).json(&report)
}

/// Shows what people did to a queue, newest first.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/audit", tag = "audit", params(PageParams),
    responses((status = 200, description = "A page of actions", body = audit::Page)))]
async fn list_audit(
    State(site): State<Site>,
    person: Person,
    place: Place,
    QueryParams(wanted): QueryParams<PageParams>,
) -> Result<Json<Value>, Problem> {
    let (queue, after) = (place.queue(&site)?, wanted.after::<EntryId>()?);
    let page = audit::of_queue(&queue, after, wanted.limit()).await.map_err(failed)?;
    if page.items.is_empty() {
        names::must_have(&site, queue.name()).await?;
    }
    View::of(&person, &site).json(&page)
}

/// Shows the progress of a batch, and what it waits for.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/batches/{batch}", tag = "jobs",
    responses((status = 200, description = "The batch", body = batch::Report)))]
async fn get_batch(State(site): State<Site>, person: Person, place: Place) -> Result<Json<Value>, Problem> {
    let (queue, name) = (place.queue(&site)?, place.get::<BatchId>("batch")?);
    let batch = batch::look_up(&queue, &name).await.map_err(failed)?;
    let none = || {
        let queue = queue.name();
        let why = "a batch is deleted 30 days after its last member was added";
        Problem::not_found(format!("the queue {queue} has no batch {name}; {why}"))
    };
    View::of(&person, &site).json(&batch.ok_or_else(none)?)
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
async fn healthz(State(site): State<Site>) -> Result<Json<Health>, Problem> {
    let unwell = |why: String| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "redis failed", why);
    match tokio::time::timeout(PROBE, site.broker().ping()).await {
        Ok(Ok(())) => Ok(Json(Health { status: "ok" })),
        // Anybody may ask, so the answer does not say which server it is.
        Ok(Err(_)) => Err(unwell("redis refuses the console, or cannot be reached".to_owned())),
        Err(_) => Err(unwell(format!("redis did not answer within {} s", PROBE.as_secs()))),
    }
}
