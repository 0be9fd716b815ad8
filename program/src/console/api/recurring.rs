//! Recurring jobs.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use streamfleet::Queue;
use streamfleet::cron::{Entry, Invalid, Missed, Schedule};
use streamfleet::job::{CronName, Encoding, JobType, Lane};
use streamfleet_engine::admin::{Kept, MAX_ENTRIES};
use utoipa_axum::routes;

use super::asked::Asked;
use super::changes::{Reason, encoded};
use super::failure::{failed, redis};
use super::names;
use super::place::Place;
use super::privacy::View;
use super::sent::Sent;
use crate::actor;
use crate::console::access::{Needs, Person, Role};
use crate::console::problem::Problem;
use crate::console::routes::Routes;
use crate::console::site::Site;
use crate::cron::{Added, Changed, Recurring, recurring};
use crate::output::List;

/// The most ticks that are shown of each recurring job.
const MAX_TICKS: usize = 100;

pub(super) fn routes() -> Routes {
    Routes::default()
        .describe(routes!(list_recurring), Needs::Role(Role::Viewer))
        .describe(routes!(put_recurring), Needs::Role(Role::Operator))
        .describe(routes!(remove_recurring), Needs::Role(Role::Operator))
        .describe(routes!(pause_recurring), Needs::Role(Role::Operator))
        .describe(routes!(resume_recurring), Needs::Role(Role::Operator))
        .describe(routes!(run_recurring), Needs::Role(Role::Operator))
}

type RecurringList = List<Recurring>;

#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it only describes parameters")]
struct TickParams {
    /// How many of the next ticks to show for each.
    #[param(minimum = 1, maximum = 100, default = 1)]
    next: Option<usize>,
}

/// Lists the recurring jobs of a queue, with their next ticks.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/cron", tag = "recurring jobs", params(TickParams),
    responses((status = 200, description = "The recurring jobs", body = RecurringList)))]
async fn list_recurring(
    State(site): State<Site>,
    person: Person,
    place: Place,
    mut asked: Asked,
) -> Result<Json<Value>, Problem> {
    let next = asked.one("next", |value| {
        let count = value.parse::<usize>().ok().filter(|count| (1..=MAX_TICKS).contains(count));
        count.ok_or_else(|| format!("it must be a number from 1 to {MAX_TICKS}"))
    });
    let next = next?.unwrap_or(1);
    asked.end()?;
    let queue = place.queue(&site)?;
    let table = queue.cron().table().await.map_err(redis("failed to list the recurring jobs"))?;
    if table.entries.is_empty() {
        names::must_have(&site, queue.name()).await?;
    }
    let items = table.entries.into_iter().map(|status| recurring(queue.name(), status, table.now, next));
    View::of(&person, &site).json(&RecurringList::from(items.collect::<Vec<_>>()))
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
    fn entry(&self, name: &CronName, queue: &Queue) -> Result<Entry, Problem> {
        let zone = self.timezone.as_deref().unwrap_or("UTC");
        let schedule = Schedule::new(&self.schedule, zone).map_err(|error| wrong("/schedule", &error))?;
        let job_type = self.job_type.parse::<JobType>();
        let job_type = job_type.map_err(|error| Problem::field("/type", error.to_string()))?;
        let entry = Entry::new(name.as_str(), schedule, job_type.as_str());
        let mut entry = entry.map_err(|error| wrong("body", &error))?.in_queue(queue.name().clone());
        if let Some(lane) = &self.lane {
            let lane = lane.parse::<Lane>();
            entry = entry.by_lane(lane.map_err(|error| Problem::field("/lane", error.to_string()))?);
        }
        if let Some(missed) = &self.missed {
            let missed = missed.parse::<Missed>();
            entry = entry.when_missed(missed.map_err(|error| Problem::field("/missed", error))?);
        }
        let Some(payload) = &self.payload else { return Ok(entry) };
        let encoding = match self.encoding.as_deref() {
            None => Encoding::default(),
            Some(name) => Encoding::parse(name)
                .ok_or_else(|| Problem::field("/encoding", "an encoding must be json, msgpack or raw"))?,
        };
        let payload = encoded(payload, encoding)?;
        entry.payload(&payload, encoding).map_err(|error| wrong("/payload", &error))
    }
}

fn wrong(at: &str, error: &Invalid) -> Problem {
    Problem::field(at, error.to_string())
}

/// Adds a recurring job, or replaces the one of this name. It starts now.
#[utoipa::path(put, path = "/api/v1/queues/{queue}/cron/{name}", tag = "recurring jobs", request_body = Wanted,
    responses((status = 200, description = "What was saved, and when it is due next", body = Added)))]
async fn put_recurring(
    State(site): State<Site>,
    person: Person,
    place: Place,
    asked: Asked,
    Sent(sent): Sent<Wanted>,
) -> Result<Json<Value>, Problem> {
    asked.end()?;
    let (queue, name) = (place.queue(&site)?, place.get::<CronName>("name")?);
    let entry = sent.entry(&name, &queue)?;
    let kept = queue.cron().put(&entry).await.map_err(redis("the recurring job may or may not be saved"))?;
    if matches!(kept, Kept::TooMany | Kept::Taken) {
        let why = format!("the queue {} already has {MAX_ENTRIES} recurring jobs, the maximum", queue.name());
        return Err(Problem::conflict(why));
    }
    actor::note(&queue, &actor::action(person.name(), "cron add", &sent.reason).target(name.to_string()))
        .await;
    View::of(&person, &site).json(&Added::of(&queue, &entry, kept).await.map_err(failed)?)
}

#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it only describes parameters")]
struct RemoveParams {
    /// Why it is done, for the audit.
    reason: Option<String>,
}

/// Removes a recurring job. Jobs that it has submitted stay.
#[utoipa::path(delete, path = "/api/v1/queues/{queue}/cron/{name}", tag = "recurring jobs", params(RemoveParams),
    responses((status = 200, description = "What was removed", body = Changed)))]
async fn remove_recurring(
    State(site): State<Site>,
    person: Person,
    place: Place,
    mut asked: Asked,
) -> Result<Json<Value>, Problem> {
    let reason = asked.one("reason", |value| Ok::<_, String>(value.to_owned()))?.unwrap_or_default();
    asked.end()?;
    change(&site, &person, &place, (What::Remove, &reason)).await
}

/// Pauses a recurring job: it submits nothing until it is resumed.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/cron/{name}/pause", tag = "recurring jobs", request_body = Reason,
    responses((status = 200, description = "What is paused", body = Changed)))]
async fn pause_recurring(
    State(site): State<Site>,
    person: Person,
    place: Place,
    asked: Asked,
    Sent(Reason { reason }): Sent<Reason>,
) -> Result<Json<Value>, Problem> {
    asked.end()?;
    change(&site, &person, &place, (What::Pause, &reason)).await
}

/// Resumes a paused recurring job from now on. Ticks that were due meanwhile are not made up for.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/cron/{name}/resume", tag = "recurring jobs", request_body = Reason,
    responses((status = 200, description = "What is resumed", body = Changed)))]
async fn resume_recurring(
    State(site): State<Site>,
    person: Person,
    place: Place,
    asked: Asked,
    Sent(Reason { reason }): Sent<Reason>,
) -> Result<Json<Value>, Problem> {
    asked.end()?;
    change(&site, &person, &place, (What::Resume, &reason)).await
}

/// Submits one job now, regardless of the schedule, even if the recurring job is paused.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/cron/{name}/run", tag = "recurring jobs", request_body = Reason,
    responses((status = 200, description = "The job that was submitted", body = Changed)))]
async fn run_recurring(
    State(site): State<Site>,
    person: Person,
    place: Place,
    asked: Asked,
    Sent(Reason { reason }): Sent<Reason>,
) -> Result<Json<Value>, Problem> {
    asked.end()?;
    change(&site, &person, &place, (What::Run, &reason)).await
}

/// What to do with a recurring job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Remove,
    Pause,
    Resume,
    Run,
}

impl What {
    /// What the audit calls it, and what is then done.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Remove => ("cron remove", "removed"),
            Self::Pause => ("cron pause", "paused"),
            Self::Resume => ("cron resume", "resumed"),
            Self::Run => ("cron run", "submitted"),
        }
    }
}

async fn change(
    site: &Site,
    person: &Person,
    place: &Place,
    (what, reason): (What, &str),
) -> Result<Json<Value>, Problem> {
    let (queue, name) = (place.queue(site)?, place.get::<CronName>("name")?);
    let cron = queue.cron();
    let (command, done) = what.names();
    let mut id = None;
    let changed = match what {
        What::Remove => cron.remove(&name).await.map(|is_removed| is_removed.then_some(true)),
        What::Pause => cron.pause(&name).await,
        What::Resume => cron.resume(&name).await,
        What::Run => cron.run(&name).await.map(|job| {
            id = job.map(|job| job.to_string());
            id.is_some().then_some(true)
        }),
    };
    let changed = changed.map_err(redis("the recurring job may or may not be changed"))?;
    let Some(changed) = changed else {
        return Err(Problem::not_found(format!("the queue {} has no recurring job {name}", queue.name())));
    };
    if changed {
        actor::note(&queue, &actor::action(person.name(), command, reason).target(name.to_string())).await;
    }
    let queue = queue.name().to_string();
    View::of(person, site).json(&Changed { name: name.to_string(), queue, done, changed, id })
}
