//! Replaying and dropping all dead letters that a filter matches. Each begins a task.

use std::num::NonZeroU64;

use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use streamfleet::Queue;
use streamfleet_engine::admin::{ReplayRules, Selection as Letters, SelectionPlan};
use streamfleet_operations::dead::{self, LetterPlan, Selected, Sweep};
use streamfleet_operations::tasks::TaskReport;
use utoipa_axum::routes;

use super::bulk::{TaskRate, per_second};
use super::failure::redis;
use super::jobs::SEARCH_FOR;
use super::selection::Selection;
use super::work_limits::Work;
use super::{Call, JsonBody, Problem, Routes, done, letters, names, operations, tasks};
use crate::console::access::Role;
use crate::console::app_state::AppState;

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::DEAD_REPLAY, routes!(bulk_replay))
        .operation(&operations::DEAD_DROP, routes!(bulk_drop))
}

/// Which dead letters to replay, and how.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BulkReplay, examples(json!({"filter": {"type": "mail.send"}, "rate": "50/s", "canary": 5, "stop_at": 5})))]
struct Replay {
    /// Which dead letters.
    #[serde(default)]
    filter: Selection,
    /// All dead letters that exist now, if there is no filter.
    #[serde(default)]
    all: bool,
    /// Only the oldest that the filter matches: at most this many.
    #[schema(minimum = 1)]
    limit: Option<u64>,
    /// How many jobs per second, or per time, such as `50/s`; as many as possible unless told otherwise.
    rate: Option<TaskRate>,
    /// Which steps to run: `failed` (the default), those that have not succeeded, or `all`, also those of the kind `once`.
    #[serde(default, deserialize_with = "letters::way")]
    #[schema(value_type = String)]
    steps: Option<Sweep>,
    /// How many jobs to replay first. All of them must succeed before the rest is replayed. Without it, none waits.
    #[schema(value_type = Option<u64>, minimum = 1)]
    canary: Option<NonZeroU64>,
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
    /// Only the oldest that the filter matches: at most this many.
    #[schema(minimum = 1)]
    limit: Option<u64>,
    /// How many dead letters per second, or per time, such as `50/s`; as many as possible unless told otherwise.
    rate: Option<TaskRate>,
    /// Make the plan, and begin nothing.
    #[serde(default)]
    dry_run: bool,
    /// Why it is done, for the audit.
    #[serde(default)]
    reason: String,
}

/// What both requests say of the letters that they mean.
struct Wanted {
    filter: Selection,
    all: bool,
    limit: Option<u64>,
    dry_run: bool,
    reason: String,
}

/// What is done to the letters: they are replayed by rules, or dropped at a rate.
enum Way {
    Replay(ReplayRules),
    Drop(Option<f64>),
}

/// Runs the jobs of all dead letters again that a filter matches.
///
/// The letters are counted for 10 s at most; the task begins even if there are more. It is done when all of its jobs have ended.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/bulk/replay", tag = "bulk", request_body = Replay,
    responses((status = 200, description = "The plan, with `dry_run`", body = LetterPlan),
        (status = 202, description = "The task that replays the dead letters", body = TaskReport,
            headers(("Location" = String, description = "Where to see how it fares")))))]
async fn bulk_replay(call: Call, JsonBody(sent): JsonBody<Replay>) -> Result<Response, Problem> {
    let Replay { filter, all, limit, rate, steps, canary, stop_at, max_replays, dry_run, reason } = sent;
    let rules = ReplayRules::default()
        .rate(per_second(rate)?)
        .canary(canary.map_or(0, NonZeroU64::get))
        .stop_at(stop_at);
    let rules = rules.all_steps(steps == Some(Sweep::ReplayAllSteps));
    let rules = max_replays.map_or(rules, |most| rules.max_replays(most));
    check(&rules)?;
    let wanted = Wanted { filter, all, limit, dry_run, reason };
    begin(&call, &wanted, Way::Replay(rules)).await
}

/// Deletes all dead letters that a filter matches, and their jobs.
///
/// The letters are counted for 10 s at most; the task begins even if there are more.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/bulk/drop", tag = "bulk", request_body = Drop,
    responses((status = 200, description = "The plan, with `dry_run`", body = LetterPlan),
        (status = 202, description = "The task that drops the dead letters", body = TaskReport,
            headers(("Location" = String, description = "Where to see how it fares")))))]
async fn bulk_drop(call: Call, JsonBody(sent): JsonBody<Drop>) -> Result<Response, Problem> {
    let Drop { filter, all, limit, rate, dry_run, reason } = sent;
    let way = Way::Drop(per_second(rate)?);
    begin(&call, &Wanted { filter, all, limit, dry_run, reason }, way).await
}

/// Refuses rules that no task can follow.
fn check(rules: &ReplayRules) -> Result<(), Problem> {
    if rules.stop_at.is_some_and(|share| !(0.0..=100.0).contains(&share)) {
        return Err(Problem::field("/stop_at", "it must be a percentage from 0 to 100"));
    }
    if rules.max_replays == 0 {
        return Err(Problem::field("/max_replays", "it must be at least 1"));
    }
    Ok(())
}

/// Makes the plan, and begins the task unless only the plan is wanted.
async fn begin(call: &Call, wanted: &Wanted, way: Way) -> Result<Response, Problem> {
    let queue = call.queue()?;
    let (letters, plan) = planned(call, &queue, wanted).await?;
    if matches!(way, Way::Drop(_)) && letters.selection.filter.is_empty() {
        // Emptying the queue needs this role, too.
        call.person.check(Role::Admin, Some(queue.name()))?;
    }
    if wanted.dry_run {
        return Ok(call.answer(&plan)?.into_response());
    }
    let actor = call.actor(&wanted.reason);
    let begun = match way {
        Way::Replay(rules) => dead::begin_replay(&queue, &actor, &letters, rules).await,
        Way::Drop(rate) => dead::begin_drop(&queue, &actor, &letters, rate).await,
    };
    tasks::begun(call, &queue, &done(begun)?)
}

/// Selects letters, and counts them for a while.
async fn planned(call: &Call, queue: &Queue, wanted: &Wanted) -> Result<(Selected, LetterPlan), Problem> {
    let filter = wanted.filter.filter(wanted.all, call)?;
    if wanted.limit == Some(0) {
        return Err(Problem::field("/limit", "it must be at least 1"));
    }
    names::must_have(&call.app, queue.name()).await?;
    let (mut letters, counted) = {
        let _permit = call.app.work_limits.begin(Work::Search)?;
        let letters = Selected::now(queue, filter, wanted.limit).await?;
        let counted = counted(&call.app, queue, &letters.selection).await?;
        (letters, counted)
    };
    letters.planned = counted.as_ref().map(|plan| plan.letters);
    let plan = LetterPlan::of(queue, &letters.selection, counted);
    Ok((letters, plan))
}

/// Counts letters; `None` if that takes too long.
async fn counted(app: &AppState, queue: &Queue, letters: &Letters) -> Result<Option<SelectionPlan>, Problem> {
    tokio::select! {
        biased;
        () = app.stopping.requested() => Ok(None),
        plan = queue.dead_letters().plan(letters, |_| {}) => {
            plan.map(Some).map_err(redis("failed to read the dead letters"))
        }
        () = tokio::time::sleep(SEARCH_FOR) => Ok(None),
    }
}
