//! The live workers, as they report themselves, and consumers of earlier workers that still have entries.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;
use streamfleet::Broker;
use streamfleet::job::{Lane, Timestamp};
use streamfleet_engine::admin::{Listed, Missing, WorkerInfo};

use super::{fact, running};
use crate::times::rfc3339;
use crate::unserved::PoolReport;
use crate::{Error, List};

/// The live workers.
pub type WorkerList = List<Worker, WorkerFacts>;

/// What is known besides the live workers.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct WorkerFacts {
    /// Consumers whose worker is not live.
    pub stale: Vec<StaleConsumer>,
    /// The lanes whose consumers could not be listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unlisted: Vec<UnlistedLane>,
}

/// A lane whose consumers could not be listed, and why.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct UnlistedLane {
    /// The queue.
    pub queue: String,
    /// The lane.
    pub lane: &'static str,
    /// Why.
    pub error: String,
}

/// A live worker.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct Worker {
    /// Its name, which no other process ever has.
    pub consumer: String,
    /// `running`, `draining` or `drained`.
    pub state: String,
    /// The queues that it serves.
    pub queues: Vec<String>,
    /// The types that it knows.
    pub types: Vec<String>,
    /// How many jobs it runs.
    pub running: u64,
    /// How many jobs it can run at once.
    pub slots: u64,
    /// Its version of streamfleet.
    pub version: String,
    /// A short text that workers with equal configurations share; null if the worker does not say.
    pub config: Option<String>,
    /// When it started, as far as its last sign of life tells.
    pub started: Option<String>,
    /// When it started, in milliseconds since 1970.
    pub started_ms: Option<u64>,
    /// The request to drain that somebody has made; null if there is none.
    pub drain: Option<WorkerDrain>,
    /// Its pools of which no program can start or keeps running; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pools_down: Vec<PoolReport>,
}

/// A request to a worker to take no further job.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct WorkerDrain {
    /// Who asked.
    pub by: String,
    /// Why; may be empty.
    pub why: String,
    /// Since when.
    pub since: String,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
    /// True if the process ends once it runs nothing.
    pub exit: bool,
    /// True if the worker has confirmed it.
    pub heard: bool,
}

/// A consumer that a group knows, but whose worker is not live.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct StaleConsumer {
    /// Its name.
    pub consumer: String,
    /// The queue.
    pub queue: String,
    /// How many entries it has in all lanes. Other workers take them over after the lease.
    pub pending: u64,
    /// For how long it has done nothing, in milliseconds.
    pub idle_ms: u64,
}

/// Lists the workers, and names the servers of a cluster that could not be asked. A lane that cannot be read does not hide the others.
///
/// # Errors
///
/// [`Error::Redis`].
pub async fn list(broker: &Broker) -> Result<(WorkerList, Vec<Missing>), Error> {
    // The groups are read first: a worker that stops in between is then in neither list, rather than in the wrong one.
    let (mut facts, mut missing) = known(broker).await?;
    let listed = broker.workers().await.map_err(Error::redis("failed to list the workers"))?;
    missing.extend(listed.missing);
    missing.sort_by(|one, other| one.node.cmp(&other.node));
    missing.dedup_by(|one, other| one.node == other.node);
    let names: BTreeSet<&str> = listed.found.iter().map(|worker| worker.consumer.as_str()).collect();
    facts.stale.retain(|consumer| !names.contains(consumer.consumer.as_str()));
    let items = listed.found.into_iter().map(Worker::of).collect();
    Ok((List { items, next: None, facts, former: None }, missing))
}

/// The consumers of every queue's groups, whether or not they are stale: their pending entries in all lanes, and their shortest idle
/// time. With the servers that could not be asked for queues.
async fn known(broker: &Broker) -> Result<(WorkerFacts, Vec<Missing>), Error> {
    let (mut stale, mut unlisted) = (Vec::new(), Vec::new());
    let listed = broker.queues().await.map_err(Error::redis("failed to list the queues"))?;
    let Listed { found: queues, missing } = listed;
    for name in queues {
        let queue = broker.queue(name);
        let mut members: BTreeMap<String, (u64, Duration)> = BTreeMap::new();
        for lane in Lane::ALL {
            let consumers = queue.consumers(lane).await.unwrap_or_else(|error| {
                let (queue, error) = (queue.name().to_string(), queue.with_keys(&error));
                unlisted.push(UnlistedLane { queue, lane: lane.as_str(), error });
                Vec::new()
            });
            for consumer in consumers {
                let (pending, idle) = members.entry(consumer.name).or_insert((0, Duration::MAX));
                *pending += consumer.pending;
                *idle = consumer.idle.min(*idle);
            }
        }
        stale.extend(members.into_iter().map(|(consumer, (pending, idle))| StaleConsumer {
            consumer,
            queue: queue.name().to_string(),
            pending,
            idle_ms: u64::try_from(idle.as_millis()).unwrap_or(u64::MAX),
        }));
    }
    Ok((WorkerFacts { stale, unlisted }, missing))
}

impl WorkerFacts {
    /// Leaves out what is about other queues than these.
    pub fn retain(&mut self, is_shown: impl Fn(&str) -> bool) {
        self.stale.retain(|stale| is_shown(&stale.queue));
        self.unlisted.retain(|unlisted| is_shown(&unlisted.queue));
    }
}

impl Worker {
    fn of(worker: WorkerInfo) -> Self {
        let text = |name: &str| fact(&worker, name).to_owned();
        let list = |name: &str| {
            fact(&worker, name)
                .split(',')
                .filter(|item| !item.is_empty())
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        Self {
            state: text("state"),
            queues: list("queues"),
            types: list("types"),
            running: running(&worker),
            slots: fact(&worker, "slots").parse().unwrap_or(0),
            version: text("version"),
            config: worker.facts.get("config").cloned(),
            started: worker.started().map(rfc3339),
            started_ms: worker.started().map(Timestamp::as_ms),
            drain: WorkerDrain::of(&worker),
            pools_down: worker.pools_down().into_iter().map(PoolReport::from).collect(),
            consumer: worker.consumer,
        }
    }

    /// Leaves out other queues than these, and returns whether any are left.
    pub fn retain(&mut self, is_shown: impl Fn(&str) -> bool) -> bool {
        self.queues.retain(|queue| is_shown(queue));
        !self.queues.is_empty()
    }
}

impl WorkerDrain {
    fn of(worker: &WorkerInfo) -> Option<Self> {
        let drain = worker.drain()?;
        let (since, since_ms) = (rfc3339(drain.since), drain.since.as_ms());
        let (exit, heard) = (drain.exits, worker.has_heard());
        Some(Self { by: drain.by, why: drain.why, since, since_ms, exit, heard })
    }
}
