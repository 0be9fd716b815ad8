//! Recurring jobs.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use streamfleet::Queue;
use streamfleet::cron::Missed;
use streamfleet::job::{CronName, Encoding, JobType, Lane};
use streamfleet_operations::List;
use streamfleet_operations::cron::{
    self, NewRecurringJob, RecurringAdded, RecurringChanged, RecurringJob, RecurringTick,
};
use utoipa_axum::routes;

use super::changes::{Reason, encoded};
use super::query::{self, ReasonParams};
use super::{Answer, Call, JsonBody, Problem, QueryParams, Routes, from_any_text, from_text, operations};

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

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct TickParams {
    /// How many of the next ticks to show for each.
    #[serde(deserialize_with = "ticks")]
    #[param(minimum = 1, maximum = 100, default = 1)]
    next: Option<usize>,
}

fn ticks<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    query::by(from, |text| {
        let count = text.parse::<usize>().ok().filter(|count| (1..=MAX_TICKS).contains(count));
        count.map(Some).ok_or_else(|| format!("it must be a number from 1 to {MAX_TICKS}"))
    })
}

type RecurringList = List<RecurringJob>;

/// Lists the recurring jobs of a queue, with their next ticks.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/cron", tag = "recurring jobs", params(TickParams),
    responses((status = 200, description = "The recurring jobs", body = RecurringList)))]
async fn list_recurring(call: Call, QueryParams(TickParams { next }): QueryParams<TickParams>) -> Answer {
    let queue = call.queue()?;
    let page = cron::list(&queue, next.unwrap_or(1)).await?;
    call.list(&queue, &page).await
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct LastParams {
    /// How many of the last ticks to list.
    #[serde(deserialize_with = "ticks")]
    #[param(minimum = 1, maximum = 100, default = 5)]
    last: Option<usize>,
}

type TickList = List<RecurringTick>;

/// Lists the last ticks of a recurring job, newest first, with what became of their jobs.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/cron/{name}/ticks", tag = "recurring jobs", params(LastParams),
    responses((status = 200, description = "The ticks", body = TickList)))]
async fn list_ticks(call: Call, QueryParams(LastParams { last }): QueryParams<LastParams>) -> Answer {
    let (queue, name) = target(&call)?;
    call.answer(&cron::ticks(&queue, &name, last.unwrap_or(5)).await?)
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
        let job_type = from_text::<JobType>("/type", &self.job_type)?;
        let lane = from_any_text::<Lane>("/lane", self.lane.as_deref())?.unwrap_or_default();
        let missed = from_any_text::<Missed>("/missed", self.missed.as_deref())?.unwrap_or_default();
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

/// The queue and the name that a request is about.
fn target(call: &Call) -> Result<(Queue, CronName), Problem> {
    Ok((call.queue()?, call.path("name")?))
}

/// Adds a recurring job, or replaces the one of this name. It starts now.
#[utoipa::path(put, path = "/api/v1/queues/{queue}/cron/{name}", tag = "recurring jobs", request_body = Wanted,
    responses((status = 200, description = "What was saved, and when it is due next", body = RecurringAdded)))]
async fn put_recurring(call: Call, JsonBody(sent): JsonBody<Wanted>) -> Answer {
    let (queue, name) = target(&call)?;
    let actor = call.actor(&sent.reason);
    call.done(cron::add(&queue, &actor, &sent.read(name)?, &call.app.schemas).await)
}

/// Removes a recurring job. Jobs that it has submitted stay.
#[utoipa::path(delete, path = "/api/v1/queues/{queue}/cron/{name}", tag = "recurring jobs", params(ReasonParams),
    responses((status = 200, description = "What was removed", body = RecurringChanged)))]
async fn remove_recurring(
    call: Call,
    QueryParams(ReasonParams { reason }): QueryParams<ReasonParams>,
) -> Answer {
    let (queue, name) = target(&call)?;
    call.done(cron::remove(&queue, &call.actor(&reason), &name).await)
}

/// Pauses a recurring job: it submits nothing until it is resumed.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/cron/{name}/pause", tag = "recurring jobs", request_body = Reason,
    responses((status = 200, description = "What is paused", body = RecurringChanged)))]
async fn pause_recurring(call: Call, JsonBody(Reason { reason }): JsonBody<Reason>) -> Answer {
    let (queue, name) = target(&call)?;
    call.done(cron::pause(&queue, &call.actor(&reason), &name).await)
}

/// Resumes a paused recurring job from now on. Ticks that were due meanwhile are not made up for.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/cron/{name}/resume", tag = "recurring jobs", request_body = Reason,
    responses((status = 200, description = "What is resumed", body = RecurringChanged)))]
async fn resume_recurring(call: Call, JsonBody(Reason { reason }): JsonBody<Reason>) -> Answer {
    let (queue, name) = target(&call)?;
    call.done(cron::resume(&queue, &call.actor(&reason), &name).await)
}

/// Submits one job now, regardless of the schedule, even if the recurring job is paused.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/cron/{name}/run", tag = "recurring jobs", request_body = Reason,
    responses((status = 200, description = "The job that was submitted", body = RecurringChanged)))]
async fn run_recurring(call: Call, JsonBody(Reason { reason }): JsonBody<Reason>) -> Answer {
    let (queue, name) = target(&call)?;
    call.done(cron::run(&queue, &call.actor(&reason), &name).await)
}
