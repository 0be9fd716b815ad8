//! The fleet: workers, what people did, batches, and whether the console is up.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use streamfleet::job::{BatchId, QueueName};
use streamfleet_engine::admin::{AuditCursor, AuditSearch, AuditSource};
use streamfleet_operations as operations;
use streamfleet_operations::jobs::{Batch, batch};
use utoipa_axum::routes;

use super::asked::Asked;
use super::desk::Work;
use super::failure::failed;
use super::jobs::PageParams;
use super::names;
use super::place::Place;
use super::privacy::View;
use crate::audit;
use crate::console::access::{Needs, Person, Role};
use crate::console::problem::Problem;
use crate::console::routes::Routes;
use crate::console::site::Site;
use crate::times::{self, Clock};
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
async fn list_workers(
    State(site): State<Site>,
    person: Person,
    asked: Asked,
) -> Result<Json<Value>, Problem> {
    asked.end()?;
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

#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it only describes parameters")]
struct AuditQueues {
    /// Only actions on this queue; may be repeated.
    queue: Option<Vec<String>>,
}

#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it only describes parameters")]
struct AuditParams {
    /// Only actions since this instant, such as `2026-12-01T10:00:00Z`, or so long ago, such as `1d`.
    since: Option<String>,
    /// Only actions before this instant, or more than so long ago.
    until: Option<String>,
    /// Only actions of people with this in their names.
    who: Option<String>,
    /// Only actions that begin with these words, such as `dead` or `dead replay`.
    action: Option<String>,
    /// Only actions with this in what they were done to, as far as you may see it.
    target: Option<String>,
}

/// Shows what people did, newest first: to queues, which queues they deleted, and about incidents.
///
/// An action on a queue is listed if you may see that queue, others if you may see all queues. A page may have fewer actions than
/// `limit` although there are more: go on while `next` is not null.
#[utoipa::path(get, path = "/api/v1/audit", tag = "audit", params(AuditQueues, AuditParams, PageParams),
    responses((status = 200, description = "A page of actions", body = audit::Page)))]
async fn list_all_audits(
    State(site): State<Site>,
    person: Person,
    mut asked: Asked,
) -> Result<Json<Value>, Problem> {
    let wanted = asked.queues()?;
    for queue in &wanted {
        person.check(Role::Viewer, Some(queue))?;
    }
    let mut names = names::visible(&site, &person).await?.queues;
    names.retain(|name| wanted.is_empty() || wanted.contains(name));
    let mut sources: Vec<_> = names.into_iter().map(AuditSource::Queue).collect();
    if wanted.is_empty() && person.may_everywhere(Role::Viewer) {
        sources.extend([AuditSource::Deletions, AuditSource::Alerts]);
    }
    View::of(&person, &site).json(&search_audit((&site, &person), asked, sources).await?)
}

/// Shows what people did to a queue, newest first.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/audit", tag = "audit", params(AuditParams, PageParams),
    responses((status = 200, description = "A page of actions", body = audit::Page)))]
async fn list_audit(
    State(site): State<Site>,
    person: Person,
    place: Place,
    asked: Asked,
) -> Result<Json<Value>, Problem> {
    let queue = place.get::<QueueName>("queue")?;
    let sources = vec![AuditSource::Queue(queue.clone())];
    let page = search_audit((&site, &person), asked, sources).await?;
    if page.items.is_empty() {
        names::must_have(&site, &queue).await?;
    }
    View::of(&person, &site).json(&page)
}

/// Finds the actions that a request asks for, for a while.
async fn search_audit(
    (site, person): (&Site, &Person),
    mut asked: Asked,
    sources: Vec<AuditSource>,
) -> Result<audit::Page, Problem> {
    let text = |value: &str| Ok::<_, String>(value.to_owned());
    let wanted = audit::Wanted {
        since: asked.one("since", times::bound)?,
        until: asked.one("until", times::bound)?,
        who: asked.one("who", text)?,
        action: asked.one("action", text)?,
        target: asked.one("target", text)?,
    };
    let (limit, after) = (asked.limit()?, asked.one("after", str::parse::<AuditCursor>)?);
    asked.end()?;
    let _permit = site.desk().begin(Work::Search)?;
    let search = AuditSearch { sources, after, limit, most: MOST_ACTIONS, ..AuditSearch::default() };
    let view = View::of(person, site);
    let shown = |target: &str| view.about(target);
    audit::find(site.broker(), search, &wanted, &Clock::utc(), shown).await.map_err(failed)
}

/// Shows the progress of a batch, and what it waits for.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/batches/{batch}", tag = "jobs",
    responses((status = 200, description = "The batch", body = Batch)))]
async fn get_batch(
    State(site): State<Site>,
    person: Person,
    place: Place,
    asked: Asked,
) -> Result<Json<Value>, Problem> {
    asked.end()?;
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
