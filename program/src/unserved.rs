//! What commands say about types that no live worker knows, and about queues that none serves.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use streamfleet::job::{JobType, QueueName};
use streamfleet::{Broker, Queue, RedisError};
use streamfleet_engine::PoolDown;
use streamfleet_service::config::{Effective, nearest};

/// How long a command waits for a remark.
const LONGEST: Duration = Duration::from_secs(2);

/// A pool whose programs cannot start or keep failing, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = PoolDown)]
pub(super) struct PoolReport {
    pool: String,
    worker: String,
    /// Why, with the last lines of the program.
    error: String,
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
pub(super) async fn remark(queue: &Queue, job_type: &JobType) -> Option<String> {
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
    types.into_iter().filter(|job_type| !known.contains(*job_type)).map(remark).collect()
}

/// Returns the pool whose programs cannot start, and because of which no live worker can run jobs of this type.
pub(super) async fn pool_down(queue: &Queue, job_type: &JobType) -> Option<PoolReport> {
    let found = tokio::time::timeout(LONGEST, queue.pool_down(job_type)).await;
    found.ok()?.ok()?.map(PoolReport::from)
}

/// Returns remarks on what keeps jobs of these types from running: no live worker knows the type, or serves the queue.
pub(super) async fn remarks_on_wait(
    (broker, effective): (&Broker, &Effective),
    queue: &Queue,
    types: impl IntoIterator<Item = &JobType>,
) -> Vec<String> {
    let mut remarks = remarks(queue, types).await;
    if remarks.is_empty() {
        remarks.extend(remark_on_queue(broker, queue, effective).await);
    }
    remarks
}

/// Returns a remark on a queue that no worker has ever joined, if another queue of the configuration has live workers: the name is
/// probably misspelled. Nobody needs to list the queues or the workers for this, which some logins may not.
async fn remark_on_queue(broker: &Broker, queue: &Queue, effective: &Effective) -> Option<String> {
    let served = tokio::time::timeout(LONGEST, served_instead(broker, queue, effective)).await.ok()?.ok()?;
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
    effective: &Effective,
) -> Result<Vec<QueueName>, RedisError> {
    let mut served = Vec::new();
    if queue.was_joined().await? {
        return Ok(served);
    }
    let others = effective.config.queues.keys().filter(|name| *name != queue.name());
    let others: Vec<Queue> = others.map(|name| broker.queue(name.clone())).collect();
    for other in others {
        if other.known_types().await?.is_some() {
            served.push(other.name().clone());
        }
    }
    Ok(served)
}

fn hint<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(given, known).map_or_else(String::new, |near| format!("; did you mean {near}?"))
}
