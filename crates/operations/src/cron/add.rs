//! Adding a recurring job, or replacing one.

use serde::Serialize;
use streamfleet::Queue;
use streamfleet::cron::{Entry, Invalid, Missed, Schedule};
use streamfleet::job::{CronName, Encoding, JobType, Lane, Timestamp};
use streamfleet::schema::Schemas;
use streamfleet_engine::admin::{Kept, MAX_ENTRIES, Noted};

use crate::times::rfc3339;
use crate::{Actor, CRON_ADD, Error};

/// A recurring job to add.
#[derive(Debug, Clone)]
pub struct NewRecurringJob {
    /// Its name.
    pub name: CronName,
    /// A cron expression of five fields, or of six, starting with the second; or a name such as `@hourly`.
    pub schedule: String,
    /// The time zone of the schedule, such as `Europe/Berlin`.
    pub timezone: String,
    /// The type of the jobs that it submits.
    pub job_type: JobType,
    /// Their payload, up to 16 KiB, and how it is encoded; `None`: none.
    pub payload: Option<(Vec<u8>, Encoding)>,
    /// Their lane.
    pub lane: Lane,
    /// What happens to ticks while no worker runs.
    pub missed: Missed,
    /// Whether to replace a different one of this name.
    pub replaces: bool,
}

/// What was saved.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct RecurringAdded {
    /// The recurring job.
    pub name: String,
    /// The queue.
    pub queue: String,
    /// `added`, `replaced` or `unchanged`.
    pub done: String,
    /// When it is due next; none if it never is.
    pub next: Option<String>,
    /// When it is due next, in milliseconds since 1970.
    pub next_ms: Option<u64>,
    /// The time by Redis's clock.
    #[serde(skip)]
    pub now: Timestamp,
}

/// Adds a recurring job, which starts now, or replaces one.
///
/// # Errors
///
/// [`Error::Invalid`] if the input is not a recurring job, or its payload does not fit the schema of its type;
/// [`Error::Doubtful`] if a different one has this name, and is not to be replaced; [`Error::Conflict`] if the queue has too many;
/// [`Error::Redis`].
pub async fn add(
    queue: &Queue,
    actor: &Actor,
    input: &NewRecurringJob,
    schemas: &Schemas,
) -> Result<Noted<RecurringAdded>, Error> {
    let (entry, name) = (input.entry(queue, schemas)?, &input.name);
    let now = queue.clock().await.map_err(Error::redis(format!("the recurring job {name} was not saved")))?;
    let cron = queue.cron();
    let kept = if input.replaces { cron.put(&entry).await } else { cron.add(&entry).await };
    let kept = kept.map_err(Error::unsure(format!("the recurring job {name} may or may not be saved")))?;
    let report = RecurringAdded::of(queue, &entry, kept, now);
    match kept {
        Kept::Added | Kept::Replaced => {
            let action = actor.action(&CRON_ADD).target(name.to_string());
            Ok(queue.audit().noted(&action, report).await)
        }
        Kept::Unchanged => Ok(Noted::of_nothing(report)),
        Kept::Taken => {
            let why = format!("the queue {} already has a different recurring job {name}", queue.name());
            Err(Error::Doubtful(why))
        }
        Kept::TooMany => {
            let why =
                format!("the queue {} already has {MAX_ENTRIES} recurring jobs, the maximum", queue.name());
            Err(Error::Conflict(why))
        }
    }
}

impl NewRecurringJob {
    /// Returns the entry that this describes.
    fn entry(&self, queue: &Queue, schemas: &Schemas) -> Result<Entry, Error> {
        let job_type = &self.job_type;
        let schedule = Schedule::new(&self.schedule, &self.timezone);
        let schedule = schedule.map_err(|error| invalid("schedule", &error))?;
        let entry = Entry::new(self.name.as_str(), schedule, job_type.as_str());
        let entry = entry.map_err(|error| invalid("body", &error))?;
        let mut entry = entry.in_queue(queue.name().clone()).by_lane(self.lane).when_missed(self.missed);
        if let Some((payload, encoding)) = &self.payload {
            entry = entry.payload(payload, *encoding).map_err(|error| invalid("payload", &error))?;
        }
        let checked = schemas.check(job_type, entry.payload_bytes(), entry.encoding());
        checked.map_err(|error| {
            Error::invalid("payload", format!("the payload does not fit the schema of {job_type}: {error}"))
        })?;
        Ok(entry)
    }
}

impl RecurringAdded {
    fn of(queue: &Queue, entry: &Entry, kept: Kept, now: Timestamp) -> Self {
        let tick = entry.schedule().next(now);
        Self {
            name: entry.name().to_string(),
            queue: queue.name().to_string(),
            done: kept.to_string(),
            next: tick.map(rfc3339),
            next_ms: tick.map(Timestamp::as_ms),
            now,
        }
    }
}

/// Says what is wrong, with a mark under the part of the schedule that is.
fn invalid(field: &'static str, error: &Invalid) -> Error {
    let pointed = error.pointed().unwrap_or_default();
    let lines = pointed.lines().map(|line| format!("\n  {line}"));
    Error::invalid(field, format!("{error}{}", lines.collect::<String>()))
}
