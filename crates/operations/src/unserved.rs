//! What to say about types that no live worker knows, and about queues that none serves.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use streamfleet::job::{HandOver, JobType, QueueName};
use streamfleet::{Broker, Queue, RedisError};
use streamfleet_domain::job::nearest::nearest;
use streamfleet_engine::PoolDown;
use streamfleet_engine::admin::UnknownType;

/// How long an operation waits for a remark.
const LONGEST: Duration = Duration::from_secs(2);

/// The most types of one queue that are named because no live worker knows them.
const MAX_TYPES: usize = 100;

/// A pool whose programs cannot start or keep failing.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = PoolDown)]
#[non_exhaustive]
pub struct PoolReport {
    /// The pool.
    pub pool: String,
    /// The worker whose pool it is.
    pub worker: String,
    /// Why, with the last lines of the program.
    pub error: String,
}

impl From<PoolDown> for PoolReport {
    fn from(PoolDown { worker, pool, why: error, .. }: PoolDown) -> Self {
        Self { pool, worker, error }
    }
}

impl fmt::Display for PoolReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pool, worker, error } = self;
        write!(out, "no program of the pool {pool} can start on {worker}: {error}")
    }
}

/// Returns a remark on a type that no live worker of the queue knows; `None` if one does, or if that is not known.
pub async fn remark(queue: &Queue, job_type: &JobType) -> Option<String> {
    remarks(queue, [job_type]).await.pop()
}

/// Returns a remark for each of these types that no live worker of the queue knows.
async fn remarks(queue: &Queue, types: impl IntoIterator<Item = &JobType>) -> Vec<String> {
    let Ok(Ok(Some(known))) = tokio::time::timeout(LONGEST, queue.known_types()).await else {
        return Vec::new();
    };
    let remark = |job_type: &JobType| {
        let hint = hint(job_type.as_str(), known.iter().map(JobType::as_str));
        format!("no live worker of the queue {} knows the type {job_type}{hint}", queue.name())
    };
    // Workers do not list the type of hand-overs, which all of them run.
    let is_unknown = |job_type: &&JobType| !known.contains(*job_type) && job_type.as_str() != HandOver::TYPE;
    types.into_iter().filter(is_unknown).map(remark).collect()
}

/// Returns the pool whose programs cannot start, and because of which no live worker can run jobs of this type.
pub async fn pool_down(queue: &Queue, job_type: &JobType) -> Option<PoolReport> {
    let found = tokio::time::timeout(LONGEST, queue.pool_down(job_type)).await;
    found.ok()?.ok()?.map(PoolReport::from)
}

/// Returns remarks on what keeps jobs of these types from running: no live worker knows the type, or serves the queue. `configured`
/// are the queues of the configuration.
pub async fn remarks_on_wait(
    (broker, configured): (&Broker, &[QueueName]),
    queue: &Queue,
    types: impl IntoIterator<Item = &JobType>,
) -> Vec<String> {
    let mut remarks = remarks(queue, types).await;
    if remarks.is_empty() {
        remarks.extend(remark_on_queue(broker, queue, configured).await);
    }
    remarks
}

/// Returns a remark on a queue that no worker has ever joined, if another queue of the configuration has live workers: the name is
/// probably misspelled. Nobody needs to list the queues or the workers for this, which some logins may not.
async fn remark_on_queue(broker: &Broker, queue: &Queue, configured: &[QueueName]) -> Option<String> {
    let served = tokio::time::timeout(LONGEST, served_instead(broker, queue, configured)).await.ok()?.ok()?;
    if served.is_empty() {
        return None;
    }
    let name = queue.name();
    let hint = hint(name.as_str(), served.iter().map(QueueName::as_str));
    Some(format!("no live worker serves the queue {name}{hint}"))
}

/// Returns the other queues of the configuration that have live workers, if no worker has ever joined this one.
async fn served_instead(
    broker: &Broker,
    queue: &Queue,
    configured: &[QueueName],
) -> Result<Vec<QueueName>, RedisError> {
    let mut served = Vec::new();
    if queue.was_joined().await? {
        return Ok(served);
    }
    for name in configured {
        if name != queue.name() && broker.queue(name.clone()).known_types().await?.is_some() {
            served.push(name.clone());
        }
    }
    Ok(served)
}

/// Names a similar one of those that are known.
pub(crate) fn hint<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(given, known).map_or_else(String::new, |near| format!("; did you mean {near}?"))
}

/// A type whose jobs wait because no live worker knows it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct UnservedType {
    /// The type.
    #[serde(rename = "type")]
    pub job_type: String,
    /// How many of them wait.
    pub jobs: u64,
    /// For how long no live worker has known the type, in milliseconds.
    pub unserved_for_ms: u64,
    /// A similar type that a live worker knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub did_you_mean: Option<String>,
}

/// The types of waiting jobs that no live worker knows, at most 100. Without the right to ask, nothing is shown.
pub async fn types(queue: &Queue) -> Vec<UnservedType> {
    let unknown = queue.unknown_types(MAX_TYPES).await.unwrap_or_default();
    if unknown.iter().all(|unknown| unknown.unserved_for.is_none()) {
        return Vec::new();
    }
    let known = queue.known_types().await.ok().flatten().unwrap_or_default();
    let report = |unknown: UnknownType| {
        let unserved_for = unknown.unserved_for.filter(|_| unknown.jobs > 0)?;
        let near = nearest(unknown.job_type.as_str(), known.iter().map(JobType::as_str));
        Some(UnservedType {
            job_type: unknown.job_type.to_string(),
            jobs: unknown.jobs,
            unserved_for_ms: u64::try_from(unserved_for.as_millis()).unwrap_or(u64::MAX),
            did_you_mean: near.map(str::to_owned),
        })
    };
    unknown.into_iter().filter_map(report).collect()
}
