//! Changes of all jobs that a filter matches. Each stops after a while: sent again, it goes on.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;
use streamfleet::job::QueueName;
use streamfleet::{Queue, Shutdown};
use streamfleet_operations::jobs::bulk::{self, Bulk, BulkReport, Change};
use streamfleet_operations::{self as operations, Actor, Control};
use utoipa_axum::routes;

use super::CHANGE_FOR;
use super::asked::Asked;
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
    /// Make the plan, and change nothing.
    #[serde(default)]
    dry_run: bool,
    /// Why it is done, for the audit.
    #[serde(default)]
    reason: String,
}

/// Which jobs to move, and where.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BulkMove, examples(json!({"to": "bulk", "filter": {"where": ["payload.campaign=9"]}})))]
struct Move {
    /// The queue that gets the jobs, in the same namespace. In a cluster, it must be in the same slot.
    to: String,
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
    /// Make the plan, and change nothing.
    #[serde(default)]
    dry_run: bool,
    /// Why it is done, for the audit.
    #[serde(default)]
    reason: String,
    /// Move them to a queue that no worker serves and that has no jobs. Without it, such a request is a conflict.
    #[serde(default)]
    confirm: bool,
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
    asked: Asked,
    Sent(sent): Sent<Wanted>,
) -> Result<Json<Value>, Problem> {
    asked.end()?;
    let queue = place.queue(&site)?;
    let input = sent.input(&site, &person, (&queue, Change::Cancel))?;
    carry_out(&site, &person, &queue, sent, input).await
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
    asked: Asked,
    Sent(sent): Sent<Wanted>,
) -> Result<Json<Value>, Problem> {
    asked.end()?;
    let queue = place.queue(&site)?;
    let input = sent.input(&site, &person, (&queue, Change::RunNow))?;
    carry_out(&site, &person, &queue, sent, input).await
}

/// Moves all waiting and delayed jobs that a filter matches to another queue.
///
/// This needs the role on both queues. If `interrupted` is true, send the request again.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/bulk/move", tag = "bulk", request_body = Move,
    responses((status = 200, description = "The plan, and what became of the jobs", body = BulkReport)))]
async fn bulk_move(
    State(site): State<Site>,
    person: Person,
    place: Place,
    asked: Asked,
    Sent(Move { to, filter, all, state, dry_run, reason, confirm }): Sent<Move>,
) -> Result<Json<Value>, Problem> {
    asked.end()?;
    let to = to.parse::<QueueName>().map_err(|error| Problem::field("/to", error.to_string()))?;
    person.check(Role::Operator, Some(&to))?;
    let (queue, sent) = (place.queue(&site)?, Wanted { filter, all, state, dry_run, reason });
    let input = sent.input(&site, &person, (&queue, Change::Move(site.queue(to))))?;
    carry_out(&site, &person, &queue, sent, Bulk { is_sure: confirm, ..input }).await
}

impl Wanted {
    /// Reads which jobs are meant.
    fn input(&self, site: &Site, person: &Person, (queue, change): (&Queue, Change)) -> Result<Bulk, Problem> {
        let view = View::of(person, site);
        if !self.filter.conditions(&view)?.letters.is_empty() {
            return Err(Problem::field("/filter", "reason, kind and group only work with dead letters"));
        }
        let filter = self.filter.filter(self.all, &view)?;
        let states: Result<Vec<_>, _> = self.state.iter().map(|name| jobs::state(name)).collect();
        let states = states.map_err(|why| Problem::field("/state", why))?;
        Ok(Bulk { all: self.all, states, ..bounded(change, filter, queue.name(), site.effective()) })
    }
}

/// Makes the plan, and carries it out unless only the plan is wanted. Both stop after a while.
async fn carry_out(
    site: &Site,
    person: &Person,
    queue: &Queue,
    sent: Wanted,
    input: Bulk,
) -> Result<Json<Value>, Problem> {
    names::must_have(site, queue.name()).await?;
    let _permit = site.desk().begin(Work::Change)?;
    let (view, progress) = (View::of(person, site), |_: u64| ());
    let stop = Shutdown::new();
    let planning = bulk::plan(queue, &input, Control { stop: &stop, progress: &progress });
    let mut planned = within(CHANGE_FOR, (&stop, site.stopping()), planning).await?;
    planned.report.dry_run = sent.dry_run;
    if sent.dry_run || planned.report.planned == 0 {
        return view.json(&planned.report);
    }
    let (stop, actor) = (Shutdown::new(), Actor::new(person.name(), &sent.reason));
    let control = Control { stop: &stop, progress: &progress };
    let changing = bulk::change(queue, &actor, &input, planned, control);
    let mut changed = done(within(CHANGE_FOR, (&stop, site.stopping()), changing).await)?;
    match changed.failure.take() {
        Some(failure) => Err(failure.into()),
        None => view.json(&changed),
    }
}
