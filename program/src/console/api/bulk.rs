//! Changes of all jobs that a filter matches. Each stops after a while: sent again, it goes on.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use streamfleet::job::QueueName;
use streamfleet::{Queue, Shutdown};
use streamfleet_engine::admin::BulkAction;
use utoipa_axum::routes;

use super::CHANGE_FOR;
use super::desk::{Work, within};
use super::failure::{failed, redis};
use super::names;
use super::place::Place;
use super::privacy::View;
use super::selection::Selection;
use super::sent::Sent;
use crate::bulk::{self, BulkArgs, Order, Report};
use crate::console::access::{Needs, Person, Role};
use crate::console::problem::Problem;
use crate::console::routes::Routes;
use crate::console::site::Site;
use crate::jobs;
use crate::times::Clock;

pub(super) fn routes() -> Routes {
    Routes::default()
        .describe(routes!(bulk_cancel), Needs::Role(Role::Operator))
        .describe(routes!(bulk_run_now), Needs::Role(Role::Operator))
        .describe(routes!(bulk_move), Needs::Role(Role::Operator))
}

/// Which jobs to change.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Bulk, examples(json!({"filter": {"type": "report.*"}, "state": ["waiting"], "dry_run": true})))]
struct Bulk {
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
}

/// Cancels all jobs that a filter matches.
///
/// Running jobs are asked to stop. If `interrupted` is true, send the request again.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/bulk/cancel", tag = "bulk", request_body = Bulk,
    responses((status = 200, description = "The plan, and what became of the jobs", body = Report)))]
async fn bulk_cancel(
    State(site): State<Site>,
    person: Person,
    place: Place,
    Sent(sent): Sent<Bulk>,
) -> Result<Json<Value>, Problem> {
    change(site.clone(), person, place.queue(&site)?, (BulkAction::Cancel, "cancel"), sent).await
}

/// Makes all delayed jobs and retries due that a filter matches.
///
/// If `interrupted` is true, send the request again.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/bulk/run-now", tag = "bulk", request_body = Bulk,
    responses((status = 200, description = "The plan, and what became of the jobs", body = Report)))]
async fn bulk_run_now(
    State(site): State<Site>,
    person: Person,
    place: Place,
    Sent(sent): Sent<Bulk>,
) -> Result<Json<Value>, Problem> {
    change(site.clone(), person, place.queue(&site)?, (BulkAction::RunNow, "run-now"), sent).await
}

/// Moves all waiting and delayed jobs that a filter matches to another queue.
///
/// This needs the role on both queues. If `interrupted` is true, send the request again.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/bulk/move", tag = "bulk", request_body = Move,
    responses((status = 200, description = "The plan, and what became of the jobs", body = Report)))]
async fn bulk_move(
    State(site): State<Site>,
    person: Person,
    place: Place,
    Sent(Move { to, filter, all, state, dry_run, reason }): Sent<Move>,
) -> Result<Json<Value>, Problem> {
    let to = to.parse::<QueueName>().map_err(|error| Problem::field("/to", error.to_string()))?;
    person.check(Role::Operator, Some(&to))?;
    let sent = Bulk { filter, all, state, dry_run, reason };
    change(site.clone(), person, place.queue(&site)?, (BulkAction::Move(to), "move"), sent).await
}

async fn change(
    site: Site,
    person: Person,
    queue: Queue,
    (action, command): (BulkAction, &'static str),
    sent: Bulk,
) -> Result<Json<Value>, Problem> {
    let view = View::of(&person, &site);
    let conditions = sent.filter.conditions(&view)?;
    if !conditions.letters.is_empty() {
        return Err(Problem::field("/filter", "reason, kind and group only work with dead letters"));
    }
    sent.filter.filter(sent.all, &view)?;
    let states: Result<Vec<_>, _> = sent.state.iter().map(|name| jobs::state(name)).collect();
    let states = states.map_err(|why| Problem::field("/state", why))?;
    let possible = action.states();
    if let Some(state) = states.iter().find(|state| !possible.contains(state)) {
        let names: Vec<&str> = possible.iter().map(|state| state.as_str()).collect();
        return Err(Problem::field(
            "/state",
            format!("it cannot be {state} here, only {}", names.join(", ")),
        ));
    }
    queue.bulk().check(&action).map_err(|error| Problem::field("/to", error.to_string()))?;
    names::must_have(&site, queue.name()).await?;
    let args = BulkArgs {
        all: sent.all,
        state: states,
        dry_run: sent.dry_run,
        yes: true,
        reason: Some(sent.reason),
        filter: conditions.jobs,
    };
    let report = carry_out(&site, &queue, (action, command), args, person.name()).await?;
    View::of(&person, &site).json(&report)
}

/// Makes the plan, and carries it out unless only the plan is wanted.
async fn carry_out(
    site: &Site,
    queue: &Queue,
    (action, command): (BulkAction, &'static str),
    args: BulkArgs,
    name: &str,
) -> Result<Report, Problem> {
    let _permit = site.desk().begin(Work::Change)?;
    let filter =
        args.filter.filter(&Clock::utc()).map_err(|error| Problem::field("/filter", error.to_string()))?;
    let filter = site.mask().blind(filter);
    let states = Some(&args.state[..]).filter(|states| !states.is_empty());
    let selection = queue.bulk().select(action.clone(), filter, states).await;
    let selection = selection.map_err(redis("failed to read the clock of Redis"))?;
    let stop = Shutdown::new();
    let context = site.context(stop.clone());
    let planning = bulk::planned(queue, &selection, &context);
    let plan = within(CHANGE_FOR, (&stop, site.stopping()), planning).await.map_err(failed)?;
    let plan = plan.ok_or_else(|| {
        let why = "making the plan takes too long, and nothing was changed: narrow the filter, or use the command line";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too many jobs", why)
    })?;
    let mut report = Report::new(queue, &selection, &plan, args.dry_run);
    if let BulkAction::Move(to) = &action {
        report.note_target(queue, &site.queue(to.clone()), bulk::max_depth(site.effective(), to)).await;
    }
    if args.dry_run || plan.jobs == 0 {
        return Ok(report);
    }
    let stop = Shutdown::new();
    let context = site.context(stop.clone());
    let order = Order { action, command, args: &args, name: Some(name.to_owned()) };
    let changing = bulk::carry_out(&order, &selection, queue, &context, &mut report);
    within(CHANGE_FOR, (&stop, site.stopping()), changing).await.map_err(failed)?;
    Ok(report)
}
