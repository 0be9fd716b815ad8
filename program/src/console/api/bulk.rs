//! Changes of all jobs that a filter matches. Each stops after a while: sent again, it goes on.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;
use streamfleet::Shutdown;
use streamfleet::job::QueueName;
use streamfleet_operations::jobs::bulk::{self, Bulk, BulkReport, Change};
use streamfleet_operations::{self as operations, Actor, Control};
use utoipa_axum::routes;

use super::CHANGE_FOR;
use super::desk::{Work, within};
use super::failure::done;
use super::names;
use super::place::Place;
use super::privacy::View;
use super::selection::Selection;
use super::sent::Sent;
use crate::bulk::bounded;
use crate::console::access::{Person, Role};
use crate::console::problem::Problem;
use crate::console::routes::Routes;
use crate::console::site::Site;
use crate::jobs;

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
    /// Make the plan, and change nothing.
    #[serde(default)]
    dry_run: bool,
    /// Why it is done, for the audit.
    #[serde(default)]
    reason: String,
}

/// Cancels all jobs that a filter matches.
///
/// Running jobs are asked to stop. If `interrupted` is true, send the request again.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/bulk/cancel", tag = "bulk", request_body = Wanted,
    responses((status = 200, description = "The plan, and what became of the jobs", body = BulkReport)))]
async fn bulk_cancel(
    State(site): State<Site>,
    person: Person,
    place: Place,
    Sent(sent): Sent<Wanted>,
) -> Result<Json<Value>, Problem> {
    carry_out((&site, &person, &place), Change::Cancel, sent).await
}

/// Makes all delayed jobs and retries due that a filter matches.
///
/// If `interrupted` is true, send the request again.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/bulk/run-now", tag = "bulk", request_body = Wanted,
    responses((status = 200, description = "The plan, and what became of the jobs", body = BulkReport)))]
async fn bulk_run_now(
    State(site): State<Site>,
    person: Person,
    place: Place,
    Sent(sent): Sent<Wanted>,
) -> Result<Json<Value>, Problem> {
    carry_out((&site, &person, &place), Change::RunNow, sent).await
}

/// Moves all waiting and delayed jobs that a filter matches to the queue `to`.
///
/// This needs the role on both queues. If `interrupted` is true, send the request again.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/bulk/move", tag = "bulk", request_body = Wanted,
    responses((status = 200, description = "The plan, and what became of the jobs", body = BulkReport)))]
async fn bulk_move(
    State(site): State<Site>,
    person: Person,
    place: Place,
    Sent(mut sent): Sent<Wanted>,
) -> Result<Json<Value>, Problem> {
    let to = sent.to.take().unwrap_or_default().parse::<QueueName>();
    let to = to.map_err(|error| Problem::field("/to", error.to_string()))?;
    person.check(Role::Operator, Some(&to))?;
    carry_out((&site, &person, &place), Change::Move(site.queue(to)), sent).await
}

/// Makes the plan, and carries it out unless only the plan is wanted. Both stop after a while.
async fn carry_out(
    (site, person, place): (&Site, &Person, &Place),
    change: Change,
    sent: Wanted,
) -> Result<Json<Value>, Problem> {
    if sent.to.is_some() {
        return Err(Problem::field("/to", "only a move has a queue that gets the jobs"));
    }
    let (queue, view) = (place.queue(site)?, View::of(person, site));
    if !sent.filter.conditions(&view)?.letters.is_empty() {
        return Err(Problem::field("/filter", "reason, kind and group only work with dead letters"));
    }
    let filter = sent.filter.filter(sent.all, &view)?;
    let states: Result<Vec<_>, _> = sent.state.iter().map(|name| jobs::state(name)).collect();
    let states = states.map_err(|why| Problem::field("/state", why))?;
    names::must_have(site, queue.name()).await?;
    let input = bounded(change, filter, queue.name(), site.effective());
    let input = Bulk { all: sent.all, states, is_sure: sent.confirm, ..input };
    let _permit = site.desk().begin(Work::Change)?;
    let (stop, progress) = (Shutdown::new(), |_: u64| ());
    let planning = bulk::plan(&queue, &input, Control { stop: &stop, progress: &progress });
    let mut planned = within(CHANGE_FOR, (&stop, site.stopping()), planning).await?;
    planned.report.dry_run = sent.dry_run;
    if sent.dry_run || planned.report.planned == 0 {
        return view.json(&planned.report);
    }
    let (stop, actor) = (Shutdown::new(), Actor::new(person.name(), &sent.reason));
    let control = Control { stop: &stop, progress: &progress };
    let changing = bulk::change(&queue, &actor, &input, planned, control);
    let mut changed = done(within(CHANGE_FOR, (&stop, site.stopping()), changing).await)?;
    match changed.failure.take() {
        Some(failure) => Err(failure.into()),
        None => view.json(&changed),
    }
}
