//! What is said about a job that the history has.

use serde::Serialize;
use serde_json::Value;
use streamfleet::job::{QueueName, Timestamp};
use streamfleet_sql::history::questions::{Row, Stats, Story};
use streamfleet_sql::history::{Attempt, Body, Ending};

use super::departed::Kept;
use crate::jobs::Input;
use crate::times::rfc3339;

/// The most lives of an id that are shown.
pub(super) const MOST_LIVES: usize = 20;

/// What is known about all jobs of a page.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct PastFacts {
    /// The queue.
    pub queue: String,
    /// Where the rows come from: `database`.
    pub source: &'static str,
}

/// A job that ended.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct PastJob {
    /// Its id.
    pub id: String,
    /// The generation that ended.
    pub generation: String,
    /// Its type; empty if the entry was not a job.
    #[serde(rename = "type")]
    pub job_type: String,
    /// Its lane.
    pub lane: &'static str,
    /// How it ended: `done`, `dead` or `cancelled`.
    pub state: &'static str,
    /// When it was accepted.
    pub created_at: String,
    /// When it was accepted, in milliseconds since 1970.
    pub created_ms: u64,
    /// When it ended.
    pub ended_at: String,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: u64,
    /// How many attempts it had.
    pub attempts: u64,
    /// The consumer that ran the last attempt, or the person that ended it.
    pub worker: Option<String>,
    /// The version of that worker.
    pub version: Option<String>,
    /// Why it is dead.
    pub reason: Option<String>,
    /// What groups its error with others.
    pub fingerprint: Option<String>,
    /// Its last error, or why it was cancelled.
    pub error: Option<String>,
    /// The first generation in its series of replays, if that is another one.
    pub root: Option<String>,
    /// Which of its fields the history has: `none`, `stored`, `masked` or `too_large`.
    pub payload_state: &'static str,
    /// As what `history restore` brings it back: as the `letter` of the dead job, or of a `new_job` that does its work again; null if the
    /// history does not have its fields.
    pub returns_as: Option<&'static str>,
}

/// A job that ended, with all that the history has about it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct PastLife {
    /// The job.
    #[serde(flatten)]
    pub job: PastJob,
    /// What its handler returned.
    pub result: Option<Value>,
    /// Its attempts, oldest first.
    pub runs: Vec<PastAttempt>,
    /// Its payload, headers and terms, if the history has them.
    pub input: Option<Input>,
}

/// An attempt.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct PastAttempt {
    /// Its number, from 1.
    pub number: u64,
    /// When it began, in milliseconds since 1970.
    pub started_ms: Option<u64>,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: u64,
    /// How it ended, in one word.
    pub outcome: String,
    /// The consumer that ran it.
    pub worker: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
}

/// How many jobs ended in a time.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct PastCounts {
    /// The queue.
    pub queue: String,
    /// From when on jobs are counted.
    pub since: String,
    /// Until when.
    pub until: String,
    /// How many of each type ended in each way.
    pub counts: Vec<PastCount>,
    /// False if there were more than could be counted: then only the latest 10,000 of a state were.
    pub complete: bool,
}

/// How many jobs of a type ended in one way.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct PastCount {
    /// The type.
    #[serde(rename = "type")]
    pub job_type: String,
    /// How they ended.
    pub state: &'static str,
    /// How many.
    pub jobs: u64,
}

impl PastJob {
    pub(super) fn of(row: &Row) -> Self {
        Self {
            id: row.id.to_string(),
            generation: row.life.to_string(),
            job_type: row.job_type.clone(),
            lane: row.lane.as_str(),
            state: row.state.as_str(),
            created_at: time(row.created_ms),
            created_ms: row.created_ms,
            ended_at: time(row.ended_ms),
            ended_ms: row.ended_ms,
            attempts: row.attempts,
            worker: row.worker.clone(),
            version: row.worker_version.clone(),
            reason: row.reason.clone(),
            fingerprint: row.fingerprint.clone(),
            error: row.error.clone(),
            root: row.root.as_ref().map(ToString::to_string),
            payload_state: row.payload_state.as_str(),
            returns_as: Kept::of(row, None).is_none().then_some(match row.state {
                Ending::Dead => "letter",
                Ending::Done | Ending::Cancelled => "new_job",
            }),
        }
    }
}

impl PastLife {
    pub(super) fn of(story: &Story) -> Self {
        let input = match &story.body {
            Body::Stored(fields) | Body::Masked(fields) => Some(Input::of(fields, false)),
            Body::None | Body::TooLarge => None,
        };
        let result = story.row.result.as_deref();
        Self {
            job: PastJob::of(&story.row),
            result: result.map(|text| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))),
            runs: story.attempts.iter().map(PastAttempt::of).collect(),
            input,
        }
    }
}

impl PastAttempt {
    fn of(attempt: &Attempt) -> Self {
        let Attempt { number, started_ms, ended_ms, outcome, worker, error } = attempt.clone();
        Self { number, started_ms, ended_ms, outcome, worker, error }
    }
}

impl PastCounts {
    pub(super) fn of(queue: &QueueName, (since, until): (Timestamp, Timestamp), stats: &Stats) -> Self {
        let counts = stats.counts.iter().map(|count| PastCount {
            job_type: count.job_type.clone(),
            state: count.state.as_str(),
            jobs: count.count,
        });
        Self {
            queue: queue.to_string(),
            since: rfc3339(since),
            until: rfc3339(until),
            counts: counts.collect(),
            complete: stats.is_complete,
        }
    }
}

pub(super) fn time(ms: u64) -> String {
    rfc3339(Timestamp::from_ms(ms).unwrap_or_default())
}
