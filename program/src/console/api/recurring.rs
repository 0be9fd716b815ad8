//! Recurring jobs.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use streamfleet::Queue;
use streamfleet::cron::Missed;
use streamfleet::job::{CronName, Encoding, JobType, Lane};
use streamfleet_operations::cron::{
    self, NewRecurringJob, RecurringAdded, RecurringChanged, RecurringJob, RecurringTick,
};
use streamfleet_operations::{self as operations, Actor, List};
use utoipa_axum::routes;

use super::changes::{Reason, encoded};
use super::failure::done;
use super::json_body::JsonBody;
use super::names;
use super::path_params::PathParams;
use super::privacy::View;
use super::query::{self, QueryParams, ReasonParams};
use crate::console::access::Person;
use crate::console::app_state::AppState;
use crate::console::problem::Problem;
use crate::console::routes::Routes;

/// The most ticks that are shown of each recurring job.
const MAX_TICKS: usize = 100;

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::CRON_LIST, routes!(list_recurring))
        .operation(&operations::CRON_LIST, routes!(list_ticks))
        .operation(&operations::CRON_ADD, routes!(put_recurring))
        .operation(&operations::CRON_REMOVE, routes!(remove_recurring))
        .operation(&operations::CRON_PAUSE, routes!(pause_recurring))
        .operation(&operations::CRON_RESUME, routes!(resume_recurring))
        .operation(&operations::CRON_RUN, routes!(run_recurring))
}

type RecurringList = List<RecurringJob>;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct TickParams {
    /// How many of the next ticks to show for each.
    #[serde(deserialize_with = "ticks")]
    #[param(minimum = 1, maximum = 100, default = 1)]
    next: usize,
}

impl Default for TickParams {
    fn default() -> Self {
        Self { next: 1 }
    }
}

fn ticks<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    query::by(from, |text| {
        let count = text.parse::<usize>().ok().filter(|count| (1..=MAX_TICKS).contains(count));
        count.ok_or_else(|| format!("it must be a number from 1 to {MAX_TICKS}"))
    })
}

/// Lists the recurring jobs of a queue, with their next ticks.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/cron", tag = "recurring jobs", params(TickParams),
    responses((status = 200, description = "The recurring jobs", body = RecurringList)))]
async fn list_recurring(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
    QueryParams(TickParams { next }): QueryParams<TickParams>,
) -> Result<Json<Value>, Problem> {
    let queue = path.queue(&app)?;
    let page = cron::list(&queue, next).await?;
    if page.items.is_empty() {
        names::must_have(&app, queue.name()).await?;
    }
    View::of(&person, &app).json(&page)
}

type TickList = List<RecurringTick>;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct LastParams {
    /// How many of the last ticks to list.
    #[serde(deserialize_with = "ticks")]
    #[param(minimum = 1, maximum = 100, default = 5)]
    last: usize,
}

impl Default for LastParams {
    fn default() -> Self {
        Self { last: 5 }
    }
}

/// Lists the last ticks of a recurring job, newest first, with what became of their jobs.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/cron/{name}/ticks", tag = "recurring jobs", params(LastParams),
    responses((status = 200, description = "The ticks", body = TickList)))]
async fn list_ticks(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
    QueryParams(LastParams { last }): QueryParams<LastParams>,
) -> Result<Json<Value>, Problem> {
    let (queue, name) = target(&app, &path)?;
    View::of(&person, &app).json(&cron::ticks(&queue, &name, last).await?)
}

/// A recurring job.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewRecurringJob, examples(json!({
    "schedule": "0 3 * * *", "timezone": "Europe/Berlin", "type": "report.generate"
})))]
struct Wanted {
    /// A cron expression: five fields, as in `0 3 * * *`, or six, starting with the second; or a name such as `@hourly`.
    schedule: String,
    /// The time zone of the schedule, such as `Europe/Berlin`. Default: UTC.
    timezone: Option<String>,
    /// The type of the jobs that it submits.
    #[serde(rename = "type")]
    job_type: String,
    /// Their payload.
    #[schema(value_type = Option<Value>)]
    payload: Option<Box<RawValue>>,
    /// How the payload is encoded: `json` (the default), `msgpack` (the JSON is converted) or `raw` (a string).
    encoding: Option<String>,
    /// Their lane: `high`, `normal` (the default) or `low`.
    lane: Option<String>,
    /// What happens to ticks while no worker runs: `skip` (the default), `one` (a job for the last of them) or `all`.
    missed: Option<String>,
    /// Why it is done, for the audit.
    #[serde(default)]
    reason: String,
}

impl Wanted {
    fn read(self, name: CronName) -> Result<NewRecurringJob, Problem> {
        let job_type = self.job_type.parse::<JobType>();
        let job_type = job_type.map_err(|error| Problem::field("/type", error.to_string()))?;
        let lane = self.lane.as_deref().map(str::parse::<Lane>).transpose();
        let lane = lane.map_err(|error| Problem::field("/lane", error.to_string()))?.unwrap_or_default();
        let missed = self.missed.as_deref().map(str::parse::<Missed>).transpose();
        let missed = missed.map_err(|why| Problem::field("/missed", why))?.unwrap_or_default();
        let encoding = self.encoding.as_deref().map_or(Some(Encoding::default()), Encoding::parse);
        let wrong = || Problem::field("/encoding", "an encoding must be json, msgpack or raw");
        let encoding = encoding.ok_or_else(wrong)?;
        let payload = self.payload.as_deref().map(|payload| encoded(payload, encoding)).transpose()?;
        let payload = payload.map(|payload| (payload, encoding));
        let timezone = self.timezone.unwrap_or_else(|| "UTC".to_owned());
        let schedule = self.schedule;
        Ok(NewRecurringJob { name, schedule, timezone, job_type, payload, lane, missed, replaces: true })
    }
}

/// The queue and the name of a request.
fn target(app: &AppState, path: &PathParams) -> Result<(Queue, CronName), Problem> {
    Ok((path.queue(app)?, path.get("name")?))
}

/// Adds a recurring job, or replaces the one of this name. It starts now.
#[utoipa::path(put, path = "/api/v1/queues/{queue}/cron/{name}", tag = "recurring jobs", request_body = Wanted,
    responses((status = 200, description = "What was saved, and when it is due next", body = RecurringAdded)))]
async fn put_recurring(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
    JsonBody(sent): JsonBody<Wanted>,
) -> Result<Json<Value>, Problem> {
    let (queue, name) = target(&app, &path)?;
    let actor = Actor::new(person.name(), &sent.reason);
    let added = cron::add(&queue, &actor, &sent.read(name)?, app.schemas()).await;
    View::of(&person, &app).json(&done(added)?)
}

/// Removes a recurring job. Jobs that it has submitted stay.
#[utoipa::path(delete, path = "/api/v1/queues/{queue}/cron/{name}", tag = "recurring jobs", params(ReasonParams),
    responses((status = 200, description = "What was removed", body = RecurringChanged)))]
async fn remove_recurring(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
    QueryParams(ReasonParams { reason }): QueryParams<ReasonParams>,
) -> Result<Json<Value>, Problem> {
    let (queue, name) = target(&app, &path)?;
    let removed = cron::remove(&queue, &Actor::new(person.name(), &reason), &name).await;
    View::of(&person, &app).json(&done(removed)?)
}

/// Pauses a recurring job: it submits nothing until it is resumed.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/cron/{name}/pause", tag = "recurring jobs", request_body = Reason,
    responses((status = 200, description = "What is paused", body = RecurringChanged)))]
async fn pause_recurring(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
    JsonBody(Reason { reason }): JsonBody<Reason>,
) -> Result<Json<Value>, Problem> {
    let (queue, name) = target(&app, &path)?;
    let paused = cron::pause(&queue, &Actor::new(person.name(), &reason), &name).await;
    View::of(&person, &app).json(&done(paused)?)
}

/// Resumes a paused recurring job from now on. Ticks that were due meanwhile are not made up for.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/cron/{name}/resume", tag = "recurring jobs", request_body = Reason,
    responses((status = 200, description = "What is resumed", body = RecurringChanged)))]
async fn resume_recurring(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
    JsonBody(Reason { reason }): JsonBody<Reason>,
) -> Result<Json<Value>, Problem> {
    let (queue, name) = target(&app, &path)?;
    let resumed = cron::resume(&queue, &Actor::new(person.name(), &reason), &name).await;
    View::of(&person, &app).json(&done(resumed)?)
}

/// Submits one job now, regardless of the schedule, even if the recurring job is paused.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/cron/{name}/run", tag = "recurring jobs", request_body = Reason,
    responses((status = 200, description = "The job that was submitted", body = RecurringChanged)))]
async fn run_recurring(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
    JsonBody(Reason { reason }): JsonBody<Reason>,
) -> Result<Json<Value>, Problem> {
    let (queue, name) = target(&app, &path)?;
    let submitted = cron::run(&queue, &Actor::new(person.name(), &reason), &name).await;
    View::of(&person, &app).json(&done(submitted)?)
}
