//! Changes of all jobs and dead letters that a filter matches. Each begins a task.

use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use streamfleet::job::QueueName;
use streamfleet::{Queue, Shutdown};
use streamfleet_operations::jobs::bulk::{self, Bulk, BulkReport, Change, Planned};
use streamfleet_operations::tasks::TaskReport;
use streamfleet_operations::{Control, Error};
use utoipa_axum::routes;

use super::jobs::SEARCH_FOR;
use super::selection::Selection;
use super::work_limits::{Work, within};
use super::{CHANGE_FOR, Call, JsonBody, Problem, Routes, done, from_text, names, operations, tasks};
use crate::bulk::bounded;
use crate::console::access::Role;
use crate::console::app_state::AppState;
use crate::jobs;
use crate::tasks::rate as rate_of;

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::CANCEL, routes!(bulk_cancel))
        .operation(&operations::RUN_NOW, routes!(bulk_run_now))
        .operation(&operations::MOVE, routes!(bulk_move))
}

/// Which jobs to change.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Bulk, examples(json!({"filter": {"type": "report.*"}, "state": ["waiting"], "dry_run": true})))]
struct Wanted {
    /// Which jobs.
    #[serde(default)]
    filter: Selection,
    /// All jobs that are in the queue now, if there is no filter.
    #[serde(default)]
    all: bool,
    /// Only jobs in these states. Default: all states that this change works on.
    #[serde(default)]
    #[schema(max_items = 7)]
    state: Vec<String>,
    /// Only to move jobs: the queue that gets them, in the same namespace. In a cluster, it must be in the same slot.
    to: Option<String>,
    /// Only to move jobs: move them to a queue that no worker serves and that has no jobs. Without it, such a request is a conflict.
    #[serde(default)]
    confirm: bool,
    /// How many jobs per second, or per time, such as `50/s`; as many as possible unless told otherwise.
    rate: Option<TaskRate>,
    /// Make the plan, and change nothing.
    #[serde(default)]
    dry_run: bool,
    /// Why it is done, for the audit.
    #[serde(default)]
    reason: String,
}

/// Cancels all jobs that a filter matches.
///
/// Running jobs are asked to stop. The jobs are counted for 10 s at most; the task begins even if there are more.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/bulk/cancel", tag = "bulk", request_body = Wanted,
    responses((status = 200, description = "The plan, with `dry_run` or if no job matches", body = BulkReport),
        (status = 202, description = "The task that changes the jobs", body = TaskReport,
            headers(("Location" = String, description = "Where to see how it fares")))))]
async fn bulk_cancel(call: Call, JsonBody(sent): JsonBody<Wanted>) -> Result<Response, Problem> {
    begin(&call, Change::Cancel, sent).await
}

/// Makes all delayed jobs and retries due that a filter matches.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/bulk/run-now", tag = "bulk", request_body = Wanted,
    responses((status = 200, description = "The plan, with `dry_run` or if no job matches", body = BulkReport),
        (status = 202, description = "The task that changes the jobs", body = TaskReport,
            headers(("Location" = String, description = "Where to see how it fares")))))]
async fn bulk_run_now(call: Call, JsonBody(sent): JsonBody<Wanted>) -> Result<Response, Problem> {
    begin(&call, Change::RunNow, sent).await
}

/// Moves all waiting and delayed jobs that a filter matches to the queue `to`.
///
/// This needs the role on both queues.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/bulk/move", tag = "bulk", request_body = Wanted,
    responses((status = 200, description = "The plan, with `dry_run` or if no job matches", body = BulkReport),
        (status = 202, description = "The task that changes the jobs", body = TaskReport,
            headers(("Location" = String, description = "Where to see how it fares")))))]
async fn bulk_move(call: Call, JsonBody(mut sent): JsonBody<Wanted>) -> Result<Response, Problem> {
    let to: QueueName = from_text("/to", &sent.to.take().unwrap_or_default())?;
    call.person.check(Role::Operator, Some(&to))?;
    let change = Change::Move { to: call.app.queue(to), is_sure: sent.confirm };
    begin(&call, change, sent).await
}

/// Makes the plan, and begins the task unless only the plan is wanted.
async fn begin(call: &Call, change: Change, sent: Wanted) -> Result<Response, Problem> {
    if sent.to.is_some() {
        return Err(Problem::field("/to", "only a move has a queue that gets the jobs"));
    }
    let queue = call.queue()?;
    if !sent.filter.conditions("/filter/", call)?.letters.is_empty() {
        return Err(Problem::field("/filter", "reason, kind and group only work with dead letters"));
    }
    let filter = sent.filter.filter(sent.all, call)?;
    let states: Result<Vec<_>, _> = sent.state.iter().map(|name| jobs::state(name)).collect();
    let states = states.map_err(|why| Problem::field("/state", why))?;
    let rate = per_second(sent.rate)?;
    names::must_have(&call.app, queue.name()).await?;
    let input = bounded(change, filter, queue.name(), &call.app.effective);
    let input = Bulk { all: sent.all, states, rate, ..input };
    let mut planned = {
        let _permit = call.app.work_limits.begin(Work::Search)?;
        planned(&call.app, &queue, &input, sent.dry_run).await?
    };
    planned.report.dry_run = sent.dry_run;
    if sent.dry_run || planned.is_empty() {
        return Ok(call.answer(&planned.report)?.into_response());
    }
    let task = done(bulk::begin(&queue, &call.actor(&sent.reason), &input, &planned).await)?;
    tasks::begun(call, &queue, &task)
}

/// How many jobs a task may change per time.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(
    untagged,
    expecting = "it must be a number of jobs per second, or a text such as 50/s, 300/m or 10/h"
)]
pub(super) enum TaskRate {
    /// How many per second: more than 0, and at most 10,000.
    PerSecond(f64),
    /// How many per second, minute or hour, such as `50/s`, `300/m` or `10/h`: from `1/h` to `10000/s`.
    Text(String),
}

/// Reads a rate, and returns how many jobs per second it is.
pub(super) fn per_second(rate: Option<TaskRate>) -> Result<Option<f64>, Problem> {
    let read = match rate {
        None => return Ok(None),
        Some(TaskRate::PerSecond(rate)) if rate > 0.0 && rate <= 10_000.0 => Ok(rate),
        Some(TaskRate::PerSecond(_)) => {
            Err("it must be more than 0 and at most 10000 jobs per second".to_owned())
        }
        Some(TaskRate::Text(text)) => rate_of(&text),
    };
    read.map(Some).map_err(|why| Problem::field("/rate", why))
}

/// Selects the jobs, and counts them for a while. Only a plan that somebody wants to see must be complete.
async fn planned(app: &AppState, queue: &Queue, input: &Bulk, is_shown: bool) -> Result<Planned, Problem> {
    let (stop, progress) = (Shutdown::new(), |_: u64| ());
    let planning = bulk::plan(queue, input, Control { stop: &stop, progress: &progress });
    let longest = if is_shown { CHANGE_FOR } else { SEARCH_FOR };
    match within(longest, (&stop, &app.stopping), planning).await {
        Err(Error::Stopped) if !is_shown => Ok(bulk::select(queue, input).await?),
        planned => Ok(planned?),
    }
}
