//! The recurring jobs of a queue, up to when their ticks are handled, and when they are due next.

use serde::Serialize;
use streamfleet::Queue;
use streamfleet::cron::Entry;
use streamfleet::job::{QueueName, Timestamp};
use streamfleet_engine::admin::CronStatus;

use crate::times::rfc3339;
use crate::{Error, List};

/// One recurring job.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct RecurringJob {
    /// The queue.
    pub queue: String,
    /// Its name.
    pub name: String,
    /// Why this program cannot read it; if set, most other fields are missing.
    pub error: Option<String>,
    /// The cron expression.
    pub schedule: Option<String>,
    /// The time zone of the schedule.
    pub timezone: Option<String>,
    /// The type of the jobs that it submits.
    #[serde(rename = "type")]
    pub job_type: Option<String>,
    /// Their lane.
    pub lane: Option<&'static str>,
    /// What happens to ticks while no worker runs: `skip`, `one` or `all`.
    pub missed: Option<&'static str>,
    /// `config`: from a worker's configuration; `command`: somebody added it.
    pub source: Option<&'static str>,
    /// Whether it submits nothing until it is resumed.
    pub paused: bool,
    /// Up to when ticks are handled: the last one, or when it was added or resumed.
    pub handled: String,
    /// Up to when ticks are handled, in milliseconds since 1970.
    pub handled_ms: u64,
    /// A tick that is due but not yet submitted.
    pub overdue: Option<String>,
    /// A tick that is due but not yet submitted, in milliseconds since 1970.
    pub overdue_ms: Option<u64>,
    /// The next ticks.
    pub next: Vec<String>,
    /// The next ticks, in milliseconds since 1970.
    pub next_ms: Vec<u64>,
    /// The next ticks in local time of the time zone.
    pub next_local: Vec<String>,
    /// The times for output to people.
    #[serde(skip)]
    pub ticks: Ticks,
}

/// The times of a recurring job.
#[derive(Debug)]
#[non_exhaustive]
pub struct Ticks {
    /// The time by Redis's clock.
    pub now: Timestamp,
    /// Up to when ticks are handled.
    pub handled: Timestamp,
    /// A tick that is due but not yet submitted.
    pub overdue: Option<Timestamp>,
    /// The next ticks.
    pub next: Vec<Timestamp>,
}

/// Lists the recurring jobs of a queue, each with so many of its next ticks.
///
/// # Errors
///
/// [`Error::Redis`].
pub async fn list(queue: &Queue, ticks: usize) -> Result<List<RecurringJob>, Error> {
    let (name, table) = (queue.name(), queue.cron().table().await);
    let failed = format!("failed to list the recurring jobs of the queue {name}");
    let table = table.map_err(Error::redis(failed))?;
    let jobs = table.entries.into_iter().map(|status| report(name, status, table.now, ticks));
    Ok(List::from(jobs.collect::<Vec<_>>()))
}

fn report(queue: &QueueName, status: CronStatus, now: Timestamp, count: usize) -> RecurringJob {
    let overdue = status.overdue(now);
    let CronStatus { name, entry, handled, paused, .. } = status;
    let (entry, error) = match entry {
        Ok(entry) => (Some(entry), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let schedule = entry.as_ref().filter(|_| !paused).map(Entry::schedule);
    let next: Vec<_> = schedule.iter().flat_map(|schedule| schedule.upcoming(now).take(count)).collect();
    let text = |text: fn(&Entry) -> String| entry.as_ref().map(text);
    RecurringJob {
        queue: queue.to_string(),
        name: name.to_string(),
        error,
        schedule: text(|entry| entry.schedule().expression.to_string()),
        timezone: text(|entry| entry.schedule().zone.to_string()),
        job_type: text(|entry| entry.job_type().to_string()),
        lane: entry.as_ref().map(|entry| entry.lane().as_str()),
        missed: entry.as_ref().map(|entry| entry.missed().as_str()),
        source: entry.as_ref().map(|entry| entry.source().as_str()),
        paused,
        handled: rfc3339(handled),
        handled_ms: handled.as_ms(),
        overdue: overdue.map(rfc3339),
        overdue_ms: overdue.map(Timestamp::as_ms),
        next: next.iter().copied().map(rfc3339).collect(),
        next_ms: next.iter().map(|tick| tick.as_ms()).collect(),
        next_local: next.iter().filter_map(|tick| Some(schedule?.zone.shown(*tick))).collect(),
        ticks: Ticks { now, handled, overdue, next },
    }
}
