//! Emptying and deleting queues. Both need the queue's name again, as the command line does, and both stop after a while:
//! sent again, they go on.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;
use streamfleet::Shutdown;
use streamfleet::job::QueueName;
use streamfleet_operations::queues::{self, Delete, Deleted, Parts, Purged};
use streamfleet_operations::{self as operations, Actor, Control};
use utoipa_axum::routes;

use super::CHANGE_FOR;
use super::desk::{Work, within};
use super::failure::done;
use super::names;
use super::place::Place;
use super::privacy::View;
use super::query::QueryParams;
use super::sent::Sent;
use crate::console::access::Person;
use crate::console::problem::Problem;
use crate::console::routes::Routes;
use crate::console::site::Site;

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::QUEUES_PURGE, routes!(purge_queue))
        .operation(&operations::QUEUES_DELETE, routes!(delete_queue))
}

/// What to empty.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Purge, examples(json!({"dead": true, "confirm": "mail", "reason": "a test that went wrong"})))]
struct Purge {
    /// Cancel the waiting jobs.
    #[serde(default)]
    waiting: bool,
    /// Cancel the delayed jobs and the retries.
    #[serde(default)]
    delayed: bool,
    /// Drop the dead letters.
    #[serde(default)]
    dead: bool,
    /// Count what would be emptied, and change nothing.
    #[serde(default)]
    dry_run: bool,
    /// The name of the queue again. Not needed with `dry_run`.
    confirm: Option<String>,
    /// Why it is done, for the audit.
    #[serde(default)]
    reason: String,
}

/// Empties a queue.
///
/// Its waiting or delayed jobs are cancelled, its dead letters are dropped. If `interrupted` is true, send the request again.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/purge", tag = "queues", request_body = Purge,
    responses((status = 200, description = "What was emptied", body = Purged)))]
async fn purge_queue(
    State(site): State<Site>,
    person: Person,
    place: Place,
    Sent(sent): Sent<Purge>,
) -> Result<Json<Value>, Problem> {
    let queue = place.queue(&site)?;
    names::must_have(&site, queue.name()).await?;
    if !sent.dry_run {
        must_confirm("/confirm", sent.confirm.as_deref(), queue.name())?;
    }
    let _permit = site.desk().begin(Work::Change)?;
    let input = queues::Purge {
        parts: Parts { waiting: sent.waiting, delayed: sent.delayed, dead: sent.dead },
        dry_run: sent.dry_run,
        retention: site.effective().config.fleet_config().worker.retention_of(queue.name()),
    };
    let (actor, stop) = (Actor::new(person.name(), &sent.reason), Shutdown::new());
    let control = Control { stop: &stop, progress: &|_| {} };
    let work = queues::purge(&queue, &actor, &input, control);
    let mut purged = done(within(CHANGE_FOR, (&stop, site.stopping()), work).await)?;
    match purged.failure.take() {
        Some(failure) => Err(failure.into()),
        None => View::of(&person, &site).json(&purged),
    }
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct DeleteParams {
    /// The name of the queue again. Not needed with `dry_run`.
    confirm: Option<String>,
    /// Delete it even if live workers serve it or jobs run. These jobs are lost, and the workers create some keys again.
    force: bool,
    /// Count what would be deleted, and change nothing.
    dry_run: bool,
    /// Why it is done, for the audit.
    reason: String,
}

/// Deletes a queue that nobody uses, with everything that Redis has of it.
///
/// If `interrupted` is true, send the request again.
#[utoipa::path(delete, path = "/api/v1/queues/{queue}", tag = "queues", params(DeleteParams),
    responses((status = 200, description = "What was deleted", body = Deleted)))]
async fn delete_queue(
    State(site): State<Site>,
    person: Person,
    place: Place,
    QueryParams(asked): QueryParams<DeleteParams>,
) -> Result<Json<Value>, Problem> {
    let DeleteParams { confirm, force, dry_run, reason } = asked;
    let queue = place.queue(&site)?;
    // Keys without any jobs may be left of a queue that is not listed.
    if !force && !queue.bulk().has_traces().await.unwrap_or(false) {
        names::must_have(&site, queue.name()).await?;
    }
    if !dry_run {
        must_confirm("query.confirm", confirm.as_deref(), queue.name())?;
    }
    let _permit = site.desk().begin(Work::Change)?;
    let (actor, stop) = (Actor::new(person.name(), &reason), Shutdown::new());
    let control = Control { stop: &stop, progress: &|_| {} };
    let input = Delete { dry_run, force, confirmed: None };
    let work = queues::delete(site.broker(), &queue, &actor, input, control);
    let mut deleted = done(within(CHANGE_FOR, (&stop, site.stopping()), work).await)?;
    match deleted.failure.take() {
        Some(failure) => Err(failure.into()),
        None => View::of(&person, &site).json(&deleted),
    }
}

/// Refuses a change whose request does not repeat the queue's name.
fn must_confirm(at: &str, given: Option<&str>, queue: &QueueName) -> Result<(), Problem> {
    if given == Some(queue.as_str()) {
        return Ok(());
    }
    Err(Problem::field(
        at,
        format!("it must be the name of the queue, {queue}, because this cannot be undone"),
    ))
}
