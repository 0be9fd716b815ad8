//! Replaying and dropping all dead letters that a filter matches. Each begins a task.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use streamfleet::Queue;
use streamfleet_engine::admin::{ReplayRules, Selection as Letters, SelectionPlan};
use streamfleet_operations::dead::{self, Group, Selected};
use streamfleet_operations::tasks::TaskReport;
use streamfleet_operations::{self as operations, Actor};
use utoipa_axum::routes;

use super::bulk::check_rate;
use super::desk::Work;
use super::failure::{done, redis};
use super::jobs::SEARCH_FOR;
use super::names;
use super::place::Place;
use super::privacy::View;
use super::selection::Selection;
use super::sent::Sent;
use super::tasks;
use crate::console::access::{Person, Role};
use crate::console::problem::Problem;
use crate::console::routes::Routes;
use crate::console::site::Site;

/// The most groups that a plan shows.
const MAX_GROUPS: usize = 100;

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::DEAD_REPLAY, routes!(bulk_replay))
        .operation(&operations::DEAD_DROP, routes!(bulk_drop))
}

/// Which dead letters to replay, and how.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BulkReplay, examples(json!({"filter": {"type": "mail.send"}, "rate": 50, "canary": 5, "stop_at": 5})))]
struct Replay {
    /// Which dead letters.
    #[serde(default)]
    filter: Selection,
    /// All dead letters that exist now, if there is no filter.
    #[serde(default)]
    all: bool,
    /// How many jobs per second; 100 unless told otherwise, at most 10,000.
    #[schema(exclusive_minimum = 0, maximum = 10000)]
    rate: Option<f64>,
    /// How many jobs to replay first. All of them must succeed before the rest is replayed.
    #[serde(default)]
    canary: u64,
    /// Stop when more than this percentage of the jobs dies again of the same error.
    #[schema(minimum = 0, maximum = 100)]
    stop_at: Option<f64>,
    /// Leave jobs alone that tasks have replayed this often; 3 unless told otherwise.
    #[schema(minimum = 1)]
    max_replays: Option<u64>,
    /// Make the plan, and begin nothing.
    #[serde(default)]
    dry_run: bool,
    /// Why it is done, for the audit.
    #[serde(default)]
    reason: String,
}

/// Which dead letters to drop.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BulkDrop, examples(json!({"filter": {"reason": "malformed", "older_than": "7d"}, "dry_run": true})))]
struct Drop {
    /// Which dead letters.
    #[serde(default)]
    filter: Selection,
    /// All dead letters that exist now, if there is no filter. This needs the role admin, as emptying the queue does.
    #[serde(default)]
    all: bool,
    /// How many dead letters per second; as many as possible unless told otherwise, at most 10,000.
    #[schema(exclusive_minimum = 0, maximum = 10000)]
    rate: Option<f64>,
    /// Make the plan, and begin nothing.
    #[serde(default)]
    dry_run: bool,
    /// Why it is done, for the audit.
    #[serde(default)]
    reason: String,
}

/// The dead letters that would be replayed or dropped.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = DeadLetterPlan)]
struct Plan {
    queue: String,
    filter: String,
    /// How many dead letters the queue has.
    total: u64,
    /// How many dead letters match; null if that takes too long to count.
    planned: Option<u64>,
    /// How many are left alone, because the filter cannot read their payloads; null if that takes too long to count.
    undecided: Option<u64>,
    /// The largest groups of those that match.
    groups: Vec<Group>,
}

/// Runs the jobs of all dead letters again that a filter matches, at a rate.
///
/// The letters are counted for 10 s at most; the task begins even if there are more. It is done when all of its jobs have ended.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/bulk/replay", tag = "bulk", request_body = Replay,
    responses((status = 200, description = "The plan, with `dry_run`", body = Plan),
        (status = 202, description = "The task that replays the dead letters", body = TaskReport,
            headers(("Location" = String, description = "Where to see how it fares")))))]
async fn bulk_replay(
    State(site): State<Site>,
    person: Person,
    place: Place,
    Sent(sent): Sent<Replay>,
) -> Result<Response, Problem> {
    let (queue, view, rules) = (place.queue(&site)?, View::of(&person, &site), sent.rules()?);
    let (letters, plan) = planned((&site, &view), &queue, (&sent.filter, sent.all)).await?;
    if sent.dry_run {
        return Ok(view.json(&plan)?.into_response());
    }
    let actor = Actor::new(person.name(), &sent.reason);
    let task = done(dead::begin_replay(&queue, &actor, &letters, rules).await)?;
    tasks::begun(&site, &view, (&queue, &task))
}

/// Deletes all dead letters that a filter matches, and their jobs.
///
/// The letters are counted for 10 s at most; the task begins even if there are more.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/bulk/drop", tag = "bulk", request_body = Drop,
    responses((status = 200, description = "The plan, with `dry_run`", body = Plan),
        (status = 202, description = "The task that drops the dead letters", body = TaskReport,
            headers(("Location" = String, description = "Where to see how it fares")))))]
async fn bulk_drop(
    State(site): State<Site>,
    person: Person,
    place: Place,
    Sent(sent): Sent<Drop>,
) -> Result<Response, Problem> {
    let (queue, view) = (place.queue(&site)?, View::of(&person, &site));
    check_rate(sent.rate)?;
    let (letters, plan) = planned((&site, &view), &queue, (&sent.filter, sent.all)).await?;
    if letters.selection.filter.is_empty() {
        // Emptying the queue needs this role, too.
        person.check(Role::Admin, Some(queue.name()))?;
    }
    if sent.dry_run {
        return Ok(view.json(&plan)?.into_response());
    }
    let actor = Actor::new(person.name(), &sent.reason);
    let task = done(dead::begin_drop(&queue, &actor, &letters, sent.rate).await)?;
    tasks::begun(&site, &view, (&queue, &task))
}

impl Replay {
    fn rules(&self) -> Result<ReplayRules, Problem> {
        check_rate(self.rate)?;
        if self.stop_at.is_some_and(|share| !(0.0..=100.0).contains(&share)) {
            return Err(Problem::field("/stop_at", "it must be a percentage from 0 to 100"));
        }
        if self.max_replays == Some(0) {
            return Err(Problem::field("/max_replays", "it must be at least 1"));
        }
        let usual = ReplayRules::default();
        let (rate, most) = (self.rate.unwrap_or(usual.rate), self.max_replays.unwrap_or(usual.max_replays));
        Ok(usual.rate(rate).max_replays(most).canary(self.canary).stop_at(self.stop_at))
    }
}

/// Selects letters, and counts them for a while.
async fn planned(
    (site, view): (&Site, &View<'_>),
    queue: &Queue,
    (filter, all): (&Selection, bool),
) -> Result<(Selected, Plan), Problem> {
    let filter = filter.filter(all, view)?;
    names::must_have(site, queue.name()).await?;
    let selected = queue.dead_letters().select(filter).await;
    let selection = selected.map_err(redis("failed to read the dead letters"))?;
    let plan = {
        let _permit = site.desk().begin(Work::Search)?;
        counted(site, queue, &selection).await?
    };
    let planned = plan.as_ref().map(|plan| plan.letters);
    let plan = Plan::of(queue, &selection, plan);
    Ok((Selected { selection, planned }, plan))
}

/// Counts letters; `None` if that takes too long.
async fn counted(site: &Site, queue: &Queue, letters: &Letters) -> Result<Option<SelectionPlan>, Problem> {
    tokio::select! {
        biased;
        () = site.stopping().requested() => Ok(None),
        plan = queue.dead_letters().plan(letters, |_| {}) => {
            plan.map(Some).map_err(redis("failed to read the dead letters"))
        }
        () = tokio::time::sleep(SEARCH_FOR) => Ok(None),
    }
}

impl Plan {
    fn of(queue: &Queue, letters: &Letters, plan: Option<SelectionPlan>) -> Self {
        let (planned, undecided) = plan.as_ref().map(|plan| (plan.letters, plan.undecided)).unzip();
        let groups = plan.map(|plan| plan.groups).unwrap_or_default();
        Self {
            queue: queue.name().to_string(),
            filter: letters.filter.to_string(),
            total: letters.total,
            planned,
            undecided,
            groups: groups.into_iter().take(MAX_GROUPS).map(Group::from).collect(),
        }
    }
}
