//! The fleet: workers, what people did, batches, and whether the console is up.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use streamfleet::job::{BatchId, QueueName};
use streamfleet_engine::admin::{AuditCursor, AuditSearch, AuditSource};
use streamfleet_operations as operations;
use streamfleet_operations::jobs::{Batch, batch};
use utoipa_axum::routes;

use super::desk::Work;
use super::failure::failed;
use super::names;
use super::place::Place;
use super::privacy::View;
use super::query::{self, PageParams, QueryParams, QueuesParams};
use crate::audit;
use crate::console::access::{Needs, Person, Role};
use crate::console::problem::Problem;
use crate::console::routes::Routes;
use crate::console::site::Site;
use crate::times::{self, Bound, Clock};
use crate::workers;

/// How long Redis may take to answer a probe.
const PROBE: Duration = Duration::from_secs(2);

/// The most actions that a search of the audits looks at.
const MOST_ACTIONS: u64 = 20_000;

pub(super) fn routes() -> Routes {
    Routes::default()
        .describe(routes!(list_workers), Needs::Role(Role::Viewer))
        .describe(routes!(list_all_audits), Needs::Role(Role::Viewer))
        .describe(routes!(list_audit), Needs::Role(Role::Viewer))
        .operation(&operations::BATCH, routes!(get_batch))
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

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct AuditParams {
    /// Only actions since this instant, such as `2026-12-01T10:00:00Z`, or so long ago, such as `1d`.
    #[serde(deserialize_with = "bound")]
    #[param(value_type = Option<String>)]
    since: Option<Bound>,
    /// Only actions before this instant, or more than so long ago.
    #[serde(deserialize_with = "bound")]
    #[param(value_type = Option<String>)]
    until: Option<Bound>,
    /// Only actions of people with this in their names.
    who: Option<String>,
    /// Only actions that begin with these words, such as `dead` or `dead replay`.
    action: Option<String>,
    /// Only actions with this in what they were done to, as far as you may see it.
    target: Option<String>,
}

fn bound<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Bound>, D::Error> {
    query::by(from, times::bound).map(Some)
}

/// Shows what people did, newest first: to queues, which queues they deleted, and about incidents.
///
/// An action on a queue is listed if you may see that queue, others if you may see all queues. A page may have fewer actions than
/// `limit` although there are more: go on while `next` is not null.
#[utoipa::path(get, path = "/api/v1/audit", tag = "audit", params(QueuesParams, AuditParams, PageParams),
    responses((status = 200, description = "A page of actions", body = audit::Page)))]
async fn list_all_audits(
    State(site): State<Site>,
    person: Person,
    QueryParams((of, wanted, page)): QueryParams<(QueuesParams, AuditParams, PageParams)>,
) -> Result<Json<Value>, Problem> {
    let names = of.visible(&site, &person).await?;
    let mut sources: Vec<_> = names.into_iter().map(AuditSource::Queue).collect();
    if of.are_all() && person.may_everywhere(Role::Viewer) {
        sources.extend([AuditSource::Deletions, AuditSource::Alerts]);
    }
    View::of(&person, &site).json(&search_audit((&site, &person), (wanted, page), sources).await?)
}

/// Shows what people did to a queue, newest first.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/audit", tag = "audit", params(AuditParams, PageParams),
    responses((status = 200, description = "A page of actions", body = audit::Page)))]
async fn list_audit(
    State(site): State<Site>,
    person: Person,
    place: Place,
    QueryParams((wanted, page)): QueryParams<(AuditParams, PageParams)>,
) -> Result<Json<Value>, Problem> {
    let queue = place.get::<QueueName>("queue")?;
    let sources = vec![AuditSource::Queue(queue.clone())];
    let page = search_audit((&site, &person), (wanted, page), sources).await?;
    if page.items.is_empty() {
        names::must_have(&site, &queue).await?;
    }
    View::of(&person, &site).json(&page)
}

/// Finds the actions that a request asks for, for a while.
async fn search_audit(
    (site, person): (&Site, &Person),
    (AuditParams { since, until, who, action, target }, page): (AuditParams, PageParams),
    sources: Vec<AuditSource>,
) -> Result<audit::Page, Problem> {
    let wanted = audit::Wanted { since, until, who, action, target };
    let (limit, after) = (page.limit(), page.after::<AuditCursor>()?);
    let _permit = site.desk().begin(Work::Search)?;
    let search = AuditSearch { sources, after, limit, most: MOST_ACTIONS, ..AuditSearch::default() };
    let view = View::of(person, site);
    let shown = |target: &str| view.about(target);
    audit::find(site.broker(), search, &wanted, &Clock::utc(), shown).await.map_err(failed)
}

/// Shows the progress of a batch, and what it waits for.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/batches/{batch}", tag = "jobs",
    responses((status = 200, description = "The batch", body = Batch)))]
async fn get_batch(State(site): State<Site>, person: Person, place: Place) -> Result<Json<Value>, Problem> {
    let (queue, name) = (place.queue(&site)?, place.get::<BatchId>("batch")?);
    View::of(&person, &site).json(&batch(&queue, &name).await?)
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
