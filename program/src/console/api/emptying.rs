//! Emptying and deleting queues. Both need the queue's name again, as the command line does. Emptying begins a task; deleting stops
//! after a while: sent again, it goes on.

use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use streamfleet::Shutdown;
use streamfleet::job::QueueName;
use streamfleet_operations::Control;
use streamfleet_operations::queues::{self, Delete, Deleted, Parts, Purged};
use streamfleet_operations::tasks::TaskReport;
use utoipa_axum::routes;

use super::work_limits::{Work, within};
use super::{
    Answer, CHANGE_FOR, Call, JsonBody, Problem, QueryParams, Routes, done, names, operations, tasks,
};

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
/// Its waiting or delayed jobs are cancelled, its dead letters are dropped.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/purge", tag = "queues", request_body = Purge,
    responses((status = 200, description = "The plan, with `dry_run` or if there is nothing to empty", body = Purged),
        (status = 202, description = "The task that empties the queue", body = TaskReport,
            headers(("Location" = String, description = "Where to see how it fares")))))]
async fn purge_queue(call: Call, JsonBody(sent): JsonBody<Purge>) -> Result<Response, Problem> {
    let queue = call.queue()?;
    names::must_have(&call.app, queue.name()).await?;
    if !sent.dry_run {
        must_confirm("/confirm", sent.confirm.as_deref(), queue.name())?;
    }
    let parts = Parts { waiting: sent.waiting, delayed: sent.delayed, dead: sent.dead };
    let mut planned = queues::plan_purge(&queue, parts).await?;
    planned.dry_run = sent.dry_run;
    if sent.dry_run || planned.planned() == 0 {
        return Ok(call.answer(&planned)?.into_response());
    }
    let retention = call.app.effective.config.fleet_config().worker.retention_of(queue.name());
    let (actor, input) = (call.actor(&sent.reason), queues::Purge { parts, retention });
    let task = done(queues::purge(&queue, &actor, &input, &planned).await)?;
    tasks::begun(&call, &queue, &task)
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
async fn delete_queue(call: Call, QueryParams(asked): QueryParams<DeleteParams>) -> Answer {
    let DeleteParams { confirm, force, dry_run, reason } = asked;
    let queue = call.queue()?;
    // Keys without any jobs may be left of a queue that is not listed.
    if !force && !queue.bulk().has_traces().await.unwrap_or(false) {
        names::must_have(&call.app, queue.name()).await?;
    }
    if !dry_run {
        must_confirm("query.confirm", confirm.as_deref(), queue.name())?;
    }
    let _permit = call.app.work_limits.begin(Work::Change)?;
    let (actor, stop) = (call.actor(&reason), Shutdown::new());
    let control = Control { stop: &stop, progress: &|_| {} };
    let input = Delete { dry_run, force, confirmed: None };
    let work = queues::delete(&call.app.broker, &queue, &actor, input, control);
    let mut deleted = done(within(CHANGE_FOR, (&stop, &call.app.stopping), work).await)?;
    match deleted.failure.take() {
        Some(failure) => Err(failure.into()),
        None => call.answer(&deleted),
    }
}

/// Refuses a change whose request does not repeat the queue's name.
fn must_confirm(at: &str, given: Option<&str>, queue: &QueueName) -> Result<(), Problem> {
    if given == Some(queue.as_str()) {
        return Ok(());
    }
    let why = format!("it must be the name of the queue, {queue}, because this cannot be undone");
    Err(Problem::field(at, why))
}
