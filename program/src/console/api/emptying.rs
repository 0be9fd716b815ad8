//! Emptying and deleting queues. Both need the queue's name again, as the command line does, and both stop after a while:
//! sent again, they go on.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;
use streamfleet::Shutdown;
use streamfleet::job::QueueName;
use utoipa_axum::routes;

use super::CHANGE_FOR;
use super::asked::Asked;
use super::desk::{Work, within};
use super::failure::{failed, redis};
use super::names;
use super::place::Place;
use super::privacy::View;
use super::sent::Sent;
use crate::actor;
use crate::console::access::{Needs, Person, Role};
use crate::console::problem::Problem;
use crate::console::routes::Routes;
use crate::console::site::Site;
use crate::queues::{self, Deleted, Parts, Purged};

pub(super) fn routes() -> Routes {
    Routes::default()
        .describe(routes!(purge_queue), Needs::Role(Role::Admin))
        .describe(routes!(delete_queue), Needs::Role(Role::Admin))
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
    asked: Asked,
    Sent(sent): Sent<Purge>,
) -> Result<Json<Value>, Problem> {
    asked.end()?;
    let queue = place.queue(&site)?;
    let parts = Parts { waiting: sent.waiting, delayed: sent.delayed, dead: sent.dead };
    if parts.is_empty() {
        return Err(Problem::field("body", "say what to empty: waiting, delayed or dead"));
    }
    names::must_have(&site, queue.name()).await?;
    let mut purged = Purged::plan(&queue, parts, sent.dry_run).await.map_err(failed)?;
    if sent.dry_run {
        return View::of(&person, &site).json(&purged);
    }
    must_confirm("/confirm", sent.confirm.as_deref(), queue.name())?;
    let action = actor::action(person.name(), "queues purge", &sent.reason);
    let _permit = site.desk().begin(Work::Change)?;
    let stop = Shutdown::new();
    let context = site.context(stop.clone());
    let work = queues::purge(&action, parts, &queue, &context, &mut purged);
    within(CHANGE_FOR, (&stop, site.stopping()), work).await.map_err(failed)?;
    View::of(&person, &site).json(&purged)
}

#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it only describes parameters")]
struct DeleteParams {
    /// The name of the queue again. Not needed with `dry_run`.
    confirm: Option<String>,
    /// Delete it even if live workers serve it or jobs run. These jobs are lost, and the workers create some keys again.
    force: Option<bool>,
    /// Count what would be deleted, and change nothing.
    dry_run: Option<bool>,
    /// Why it is done, for the audit.
    reason: Option<String>,
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
    mut asked: Asked,
) -> Result<Json<Value>, Problem> {
    let text = |value: &str| Ok::<_, String>(value.to_owned());
    let (force, dry_run) = (asked.flag("force")?, asked.flag("dry_run")?);
    let (confirm, reason) = (asked.one("confirm", text)?, asked.one("reason", text)?.unwrap_or_default());
    asked.end()?;
    let queue = place.queue(&site)?;
    if !force {
        names::must_have(&site, queue.name()).await?;
    }
    let users = site.broker().use_of(&queue).await.map_err(redis("failed to ask who uses the queue"))?;
    let mut deleted = Deleted::plan(&queue, &users, dry_run).await.map_err(failed)?;
    if dry_run {
        return View::of(&person, &site).json(&deleted);
    }
    if !users.is_idle() && !force {
        let why = queues::in_use(&users);
        let what = format!(
            "the queue {} is in use: {why}; stop its workers first, or send force=true",
            queue.name()
        );
        return Err(Problem::conflict(what));
    }
    must_confirm("query.confirm", confirm.as_deref(), queue.name())?;
    let _permit = site.desk().begin(Work::Change)?;
    let action = actor::action(person.name(), "queues delete", &reason);
    let stop = Shutdown::new();
    let context = site.context(stop.clone());
    let work = queues::delete(&action, (site.broker(), &queue), &context, &mut deleted);
    within(CHANGE_FOR, (&stop, site.stopping()), work).await.map_err(failed)?;
    View::of(&person, &site).json(&deleted)
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
