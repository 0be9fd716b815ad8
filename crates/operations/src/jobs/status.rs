//! Everything that is known about one job.

use serde::Serialize;
use serde_json::Value;
use streamfleet::job::{JobType, QueueName, State};
use streamfleet::{Broker, Queue, RedisError};
use streamfleet_engine::admin::{self, Status};

use super::{Input, results};
use crate::outlook::{CauseReport, outlook};
use crate::times::rfc3339;
use crate::unserved::{self, PoolReport};
use crate::{Error, steps};

/// A job.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct Job {
    /// Its id.
    pub id: String,
    /// The queue.
    pub queue: String,
    /// Its state.
    pub state: &'static str,
    /// Its type.
    #[serde(rename = "type")]
    pub job_type: String,
    /// Its lane.
    pub lane: &'static str,
    /// When it was submitted, if known.
    pub created: Option<String>,
    /// When it was submitted, in milliseconds since 1970.
    pub created_ms: Option<u64>,
    /// When it is due, if it is delayed.
    pub due: Option<String>,
    /// When it is due, in milliseconds since 1970.
    pub due_ms: Option<u64>,
    /// Its entry, if it is in a stream.
    pub entry: Option<String>,
    /// The gate that does not let it pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// The worker that runs it.
    pub worker: Option<String>,
    /// Its progress, as its handler reported it.
    pub progress: Option<Progress>,
    /// Its last attempts, oldest first.
    pub attempts: Vec<Attempt>,
    /// The last lines that its handler logged, oldest first.
    pub log: Vec<LogLine>,
    /// How many lines it has logged, also those that are not kept.
    pub logged: u64,
    /// What its handler returned.
    pub result: Option<Value>,
    /// The last error.
    pub error: Option<String>,
    /// When its cancellation was requested, until it has ended.
    pub cancelling_since: Option<String>,
    /// Who requested its cancellation.
    pub cancelled_by: Option<String>,
    /// Its dead letter.
    pub dead_letter: Option<String>,
    /// The jobs that followed its last end; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<String>,
    /// The state of its steps, in words; absent if the job has no steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<String>,
    /// Says that no live worker knows its type, or serves its queue; absent if one does, if it does not wait, or if that is not
    /// known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unserved: Option<String>,
    /// The pool that cannot run it, because its programs cannot start; absent if there is none, or if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool_down: Option<PoolReport>,
    /// The worst cause for which the jobs of its queue wait; absent if there is none, if the job does not wait, or if that is not
    /// known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_cause: Option<CauseReport>,
    /// What it got; absent if its fields are gone.
    #[serde(flatten)]
    pub input: Option<Input>,
    /// Why its payload is missing although its fields exist.
    #[serde(skip)]
    pub remark: Option<String>,
}

/// One attempt.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct Attempt {
    /// When it began.
    pub started: String,
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
    /// When it ended.
    pub ended: String,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: u64,
    /// How long it took from its start to its end, in milliseconds. In a pool, the wait for a free program counts.
    pub duration_ms: u64,
    /// The worker that ran it.
    pub worker: String,
    /// How it ended, in one word.
    pub outcome: String,
    /// What went wrong.
    pub error: Option<String>,
}

/// The progress of a job.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct Progress {
    /// From 0 to 100.
    pub percent: u8,
    /// What its handler says about it.
    pub note: String,
    /// When it was reported.
    pub at: String,
    /// When it was reported, in milliseconds since 1970.
    pub at_ms: u64,
}

/// A line that a job logged.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct LogLine {
    /// When.
    pub at: String,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// The line.
    pub text: String,
}

/// Adds to a job's status its steps, what keeps it from running, and what it got, as far as its fields could be read. `configured` are
/// the queues of the configuration.
///
/// # Errors
///
/// [`Error::Redis`]. Fields that cannot be read are none: the report has a remark instead.
pub async fn status(
    (broker, configured): (&Broker, &[QueueName]),
    (queue, status): (&Queue, &Status),
    input: Result<Option<Input>, RedisError>,
) -> Result<Job, Error> {
    let steps = queue.steps().of(&status.id).await.map_err(Error::redis("failed to look up the steps"))?;
    let mut job = Job { steps: steps.as_ref().and_then(steps::summary), ..Job::new(queue, status) };
    match input {
        Ok(input) => job.input = input,
        Err(error) => {
            job.remark = Some(format!("the job's payload cannot be read: {}", queue.with_keys(&error)));
        }
    }
    job.add_obstacles((broker, configured), queue, status).await;
    Ok(job)
}

impl Job {
    /// A job without its steps, its payload, and what keeps it from running.
    pub fn new(queue: &Queue, status: &Status) -> Self {
        Self {
            id: status.id.to_string(),
            queue: queue.name().to_string(),
            state: status.state.as_str(),
            job_type: status.job_type.clone(),
            lane: status.lane.as_str(),
            created: status.created.map(rfc3339),
            created_ms: status.created.map(|time| time.as_ms()),
            due: status.due.map(rfc3339),
            due_ms: status.due.map(|time| time.as_ms()),
            entry: status.entry.map(|entry| entry.to_string()),
            gate: status.waitlist.clone(),
            worker: status.worker.clone(),
            progress: status.progress.as_ref().map(progress),
            attempts: status.attempts.iter().map(attempt).collect(),
            log: status.log.iter().map(line).collect(),
            logged: status.logged,
            result: status.result.as_ref().map(|result| results::value(result.as_bytes())),
            error: status.error.clone(),
            cancelling_since: status.cancelling.map(rfc3339),
            cancelled_by: status.cancelled_by.clone(),
            dead_letter: status.dead.map(|entry| entry.to_string()),
            children: status.children.iter().map(ToString::to_string).collect(),
            steps: None,
            unserved: None,
            pool_down: None,
            queue_cause: None,
            input: None,
            remark: None,
        }
    }

    /// Adds what keeps the job from running: no live worker knows its type, or serves its queue, no program of its pool can start,
    /// or the queue has a backlog.
    async fn add_obstacles(
        &mut self,
        (broker, configured): (&Broker, &[QueueName]),
        queue: &Queue,
        status: &Status,
    ) {
        let Ok(job_type) = status.job_type.parse::<JobType>() else { return };
        if matches!(status.state, State::Waiting | State::Scheduled | State::Retrying) {
            let remarks = unserved::remarks_on_wait((broker, configured), queue, [&job_type]).await;
            self.unserved = remarks.into_iter().next_back();
        }
        if !status.state.is_final() && self.unserved.is_none() {
            self.pool_down = unserved::pool_down(queue, &job_type).await;
        }
        if status.state == State::Waiting
            && let Ok(snapshot) = queue.snapshot().await
        {
            self.queue_cause = outlook(queue, &snapshot).await.1.into_iter().next();
        }
    }
}

fn progress(progress: &admin::Progress) -> Progress {
    let admin::Progress { percent, note, at, .. } = progress.clone();
    Progress { percent, note, at: rfc3339(at), at_ms: at.as_ms() }
}

fn line(line: &admin::LogLine) -> LogLine {
    LogLine { at: rfc3339(line.at), at_ms: line.at.as_ms(), text: line.text.clone() }
}

fn attempt(attempt: &admin::Attempt) -> Attempt {
    Attempt {
        started: rfc3339(attempt.started),
        started_ms: attempt.started.as_ms(),
        ended: rfc3339(attempt.ended),
        ended_ms: attempt.ended.as_ms(),
        duration_ms: u64::try_from(attempt.duration().as_millis()).unwrap_or(u64::MAX),
        worker: attempt.worker.clone(),
        outcome: attempt.outcome.clone(),
        error: Some(attempt.error.clone()).filter(|error| !error.is_empty()),
    }
}
