//! Changes of all jobs and dead letters that a filter matches. Each begins a task.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use streamfleet::job::QueueName;
use streamfleet::{Queue, Shutdown};
use streamfleet_operations::jobs::bulk::{self, Bulk, BulkReport, Change, Planned};
use streamfleet_operations::tasks::TaskReport;
use streamfleet_operations::{self as operations, Actor, Control, Error};
use utoipa_axum::routes;

use super::CHANGE_FOR;
use super::failure::done;
use super::jobs::SEARCH_FOR;
use super::json_body::JsonBody;
use super::names;
use super::path_params::PathParams;
use super::privacy::View;
use super::selection::Selection;
use super::tasks;
use super::work_limits::{Work, within};
use crate::bulk::bounded;
use crate::console::access::{Person, Role};
use crate::console::app_state::AppState;
use crate::console::problem::Problem;
use crate::console::routes::Routes;
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
    rate: Option<Rate>,
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
async fn bulk_cancel(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
    JsonBody(sent): JsonBody<Wanted>,
) -> Result<Response, Problem> {
    begin((&app, &person, &path), Change::Cancel, sent).await
}

/// Makes all delayed jobs and retries due that a filter matches.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/bulk/run-now", tag = "bulk", request_body = Wanted,
    responses((status = 200, description = "The plan, with `dry_run` or if no job matches", body = BulkReport),
        (status = 202, description = "The task that changes the jobs", body = TaskReport,
            headers(("Location" = String, description = "Where to see how it fares")))))]
async fn bulk_run_now(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
    JsonBody(sent): JsonBody<Wanted>,
) -> Result<Response, Problem> {
    begin((&app, &person, &path), Change::RunNow, sent).await
}

/// Moves all waiting and delayed jobs that a filter matches to the queue `to`.
///
/// This needs the role on both queues.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/bulk/move", tag = "bulk", request_body = Wanted,
    responses((status = 200, description = "The plan, with `dry_run` or if no job matches", body = BulkReport),
        (status = 202, description = "The task that changes the jobs", body = TaskReport,
            headers(("Location" = String, description = "Where to see how it fares")))))]
async fn bulk_move(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
    JsonBody(mut sent): JsonBody<Wanted>,
) -> Result<Response, Problem> {
    let to = sent.to.take().unwrap_or_default().parse::<QueueName>();
    let to = to.map_err(|error| Problem::field("/to", error.to_string()))?;
    person.check(Role::Operator, Some(&to))?;
    let change = Change::Move { to: app.queue(to), is_sure: sent.confirm };
    begin((&app, &person, &path), change, sent).await
}

/// Makes the plan, and begins the task unless only the plan is wanted.
async fn begin(
    (app, person, path): (&AppState, &Person, &PathParams),
    change: Change,
    sent: Wanted,
) -> Result<Response, Problem> {
    if sent.to.is_some() {
        return Err(Problem::field("/to", "only a move has a queue that gets the jobs"));
    }
    let (queue, view) = (path.queue(app)?, View::of(person, app));
    if !sent.filter.conditions(&view)?.letters.is_empty() {
        return Err(Problem::field("/filter", "reason, kind and group only work with dead letters"));
    }
    let filter = sent.filter.filter(sent.all, &view)?;
    let states: Result<Vec<_>, _> = sent.state.iter().map(|name| jobs::state(name)).collect();
    let states = states.map_err(|why| Problem::field("/state", why))?;
    let rate = per_second(sent.rate)?;
    names::must_have(app, queue.name()).await?;
    let input = bounded(change, filter, queue.name(), app.effective());
    let input = Bulk { all: sent.all, states, rate, ..input };
    let mut planned = {
        let _permit = app.work_limits().begin(Work::Search)?;
        planned(app, &queue, &input, sent.dry_run).await?
    };
    planned.report.dry_run = sent.dry_run;
    if sent.dry_run || planned.is_empty() {
        return Ok(view.json(&planned.report)?.into_response());
    }
    let actor = Actor::new(person.name(), &sent.reason);
    let task = done(bulk::begin(&queue, &actor, &input, &planned).await)?;
    tasks::begun(app, &view, (&queue, &task))
}

/// How many jobs a task may change per time.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(
    untagged,
    expecting = "it must be a number of jobs per second, or a text such as 50/s, 300/m or 10/h"
)]
#[schema(as = TaskRate)]
pub(super) enum Rate {
    /// How many per second: more than 0, and at most 10,000.
    PerSecond(f64),
    /// How many per second, minute or hour, such as `50/s`, `300/m` or `10/h`: from `1/h` to `10000/s`.
    Text(String),
}

/// Reads a rate, and returns how many jobs per second it is.
pub(super) fn per_second(rate: Option<Rate>) -> Result<Option<f64>, Problem> {
    let read = match rate {
        None => return Ok(None),
        Some(Rate::PerSecond(rate)) if rate > 0.0 && rate <= 10_000.0 => Ok(rate),
        Some(Rate::PerSecond(_)) => {
            Err("it must be more than 0 and at most 10000 jobs per second".to_owned())
        }
        Some(Rate::Text(text)) => rate_of(&text),
    };
    read.map(Some).map_err(|why| Problem::field("/rate", why))
}

/// Selects the jobs, and counts them for a while. Only a plan that somebody wants to see must be complete.
async fn planned(app: &AppState, queue: &Queue, input: &Bulk, is_shown: bool) -> Result<Planned, Problem> {
    let (stop, progress) = (Shutdown::new(), |_: u64| ());
    let planning = bulk::plan(queue, input, Control { stop: &stop, progress: &progress });
    let longest = if is_shown { CHANGE_FOR } else { SEARCH_FOR };
    match within(longest, (&stop, app.stopping()), planning).await {
        Err(Error::Stopped) if !is_shown => Ok(bulk::select(queue, input).await?),
        planned => Ok(planned?),
    }
}
