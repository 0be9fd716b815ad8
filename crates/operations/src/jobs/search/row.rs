//! One job of a list.

use std::time::Duration;

use serde::Serialize;
use streamfleet::Broker;
use streamfleet::job::{EntryId, Lane, QueueName, Timestamp};
use streamfleet_engine::admin::FoundJob;
use streamfleet_sql::history::Ending;
use streamfleet_sql::history::questions;

use crate::Error;
use crate::times::rfc3339;

/// One job.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = JobRow)]
pub struct Row {
    /// Its id.
    pub id: String,
    /// Its queue.
    pub queue: String,
    /// Its type.
    #[serde(rename = "type")]
    pub job_type: String,
    /// Its state.
    pub state: &'static str,
    /// What has it: `redis`, or `history` if Redis no longer has it.
    pub source: &'static str,
    /// Its lane, if it is in one.
    pub lane: Option<&'static str>,
    /// Its entry in a lane or a waiting list, or its dead letter.
    pub entry: Option<String>,
    /// The gate that does not let it pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// When this generation of it began: when it was accepted or last replayed, if known.
    pub created: Option<String>,
    /// When this generation of it began, in milliseconds since 1970.
    pub created_ms: Option<u64>,
    /// How many attempts it has used up.
    pub attempts: u64,
    /// When it is due, if it is delayed.
    pub due: Option<String>,
    /// When it is due, in milliseconds since 1970.
    pub due_ms: Option<u64>,
    /// When it died, if it is dead.
    pub died: Option<String>,
    /// When it died, in milliseconds since 1970.
    pub died_ms: Option<u64>,
    /// Its last error.
    pub error: Option<String>,
    /// The worker that holds it, or that ran its last attempt if only the history has it.
    pub worker: Option<String>,
    /// When its attempt started, as far as is known.
    pub started: Option<String>,
    /// When its attempt started, in milliseconds since 1970.
    pub started_ms: Option<u64>,
    /// False if it may have started later, or not yet.
    pub started_exact: Option<bool>,
    /// How long ago the worker last renewed it.
    pub silent_ms: Option<u64>,
    /// How often its entry was delivered.
    pub deliveries: Option<u64>,
    /// How old it is, or for how long it has been running or dead, in milliseconds.
    pub age_ms: Option<u64>,
    /// How old it is, or for how long it has been running or dead.
    #[serde(skip)]
    pub age: Option<Duration>,
    /// When it ended, in milliseconds since 1970, if it is done or cancelled and that is known.
    pub ended_ms: Option<u64>,
    /// What was found in Redis.
    #[serde(skip)]
    pub job: Option<FoundJob>,
    /// The time by Redis's clock.
    #[serde(skip)]
    pub now: Timestamp,
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Row {
    pub(super) fn new(queue: &QueueName, job: FoundJob, now: Timestamp) -> Self {
        let (age, holder) = (job.age(now), job.holder.as_ref());
        Self {
            id: job.id.clone(),
            queue: queue.to_string(),
            job_type: job.job_type.clone(),
            state: job.state.as_str(),
            source: "redis",
            lane: job.lane.map(Lane::as_str),
            entry: job.entry.as_ref().map(EntryId::to_string),
            gate: job.waitlist.clone(),
            created: job.created.map(rfc3339),
            created_ms: job.created.map(Timestamp::as_ms),
            attempts: job.attempts,
            due: job.due.map(rfc3339),
            due_ms: job.due.map(Timestamp::as_ms),
            died: job.died.map(rfc3339),
            died_ms: job.died.map(Timestamp::as_ms),
            error: job.error.clone().filter(|error| !error.is_empty()),
            worker: holder.map(|holder| holder.worker.clone()),
            started: holder.map(|holder| rfc3339(holder.since)),
            started_ms: holder.map(|holder| holder.since.as_ms()),
            started_exact: holder.map(|holder| holder.is_exact),
            silent_ms: holder.map(|holder| ms(holder.silent)),
            deliveries: holder.map(|holder| holder.deliveries),
            age_ms: age.map(ms),
            age,
            ended_ms: job.ended.map(Timestamp::as_ms),
            job: Some(job),
            now,
        }
    }

    /// A job that only the history has.
    pub(super) fn past(row: &questions::Row, now: Timestamp) -> Self {
        let [created, ended] = [row.created_ms, row.ended_ms].map(Timestamp::from_ms);
        let died = ended.filter(|_| row.state == Ending::Dead);
        let age = died.or(created).map(|begun| now.since(begun));
        Self {
            id: row.id.to_string(),
            queue: row.queue.to_string(),
            job_type: row.job_type.clone(),
            state: row.state.as_str(),
            source: "history",
            lane: Some(row.lane.as_str()),
            entry: None,
            gate: None,
            created: created.map(rfc3339),
            created_ms: created.map(Timestamp::as_ms),
            attempts: row.attempts,
            due: None,
            due_ms: None,
            died: died.map(rfc3339),
            died_ms: died.map(Timestamp::as_ms),
            error: row.error.clone().filter(|error| !error.is_empty()),
            worker: row.worker.clone(),
            started: None,
            started_ms: None,
            started_exact: None,
            silent_ms: None,
            deliveries: None,
            age_ms: age.map(ms),
            age,
            ended_ms: ended.filter(|_| row.state != Ending::Dead).map(Timestamp::as_ms),
            job: None,
            now,
        }
    }

    /// Whether this worker runs it; any job is of no worker in particular.
    pub(super) fn is_of(&self, worker: Option<&str>) -> bool {
        worker.is_none_or(|worker| self.worker.as_deref() == Some(worker))
    }

    /// Reads the job's entry, if only its place is known; `None` if the job has ended since.
    pub(super) async fn read(self, broker: Broker) -> Result<Option<Self>, Error> {
        let name: QueueName = self.queue.parse().expect("a queue was found by its name");
        let queue = broker.queue(name.clone());
        let failed = Error::redis(format!("failed to read the jobs of the queue {name}"));
        let Some(job) = self.job else { return Ok(Some(self)) };
        let job = queue.read_found(job).await.map_err(failed)?;
        Ok(job.map(|job| Self::new(&name, job, self.now)))
    }
}
