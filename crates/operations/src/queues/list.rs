//! How many jobs queues have, and in which state.

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, stream};
use serde::Serialize;
use streamfleet::job::{EntryId, Lane, QueueName, Timestamp};
use streamfleet::{Broker, Queue, RedisError};
use streamfleet_engine::admin::{LaneSnapshot, Part, QueueSnapshot, Unread};

use crate::outlook::{CauseReport, EmptyIn, outlook};
use crate::times::rfc3339;
use crate::unserved::{UnservedType, types};

/// How many queues are read at once.
const AT_ONCE: usize = 16;

/// One queue. A count is missing if its key cannot be read.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
#[schema(as = Queue)]
#[non_exhaustive]
pub struct QueueReport {
    /// The queue.
    pub queue: String,
    /// How many jobs wait.
    pub waiting: Option<u64>,
    /// How many jobs run.
    pub running: Option<u64>,
    /// How many jobs are delayed or wait for their retry.
    pub delayed: Option<u64>,
    /// How many dead letters there are.
    pub dead: Option<u64>,
    /// Those of the waiting ones that a gate does not let pass.
    pub in_rooms: Option<u64>,
    /// Those that wait for the turn of their value; missing if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_fair_rooms: Option<u64>,
    /// Since when the queue is paused.
    pub paused_since: Option<String>,
    /// Since when the queue is paused, in milliseconds since 1970.
    pub paused_since_ms: Option<u64>,
    /// Waiting, running, or due within a minute.
    pub backlog: Option<u64>,
    /// Each lane.
    pub lanes: Vec<LaneReport>,
    /// When the next delayed job is due.
    pub next_due: Option<String>,
    /// When the next delayed job is due, in milliseconds since 1970.
    pub next_due_ms: Option<u64>,
    /// When the job that has waited longest began to wait.
    pub oldest_waiting: Option<String>,
    /// When it began to wait, in milliseconds since 1970.
    pub oldest_waiting_ms: Option<u64>,
    /// For how long it has waited, in milliseconds.
    pub oldest_waiting_age_ms: Option<u64>,
    /// How long a job may wait by the configuration of the console; missing on the command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective_ms: Option<u64>,
    /// How many consumers its groups have.
    pub consumers: Option<usize>,
    /// The process that does its maintenance.
    pub leader: Option<String>,
    /// When it is empty; absent if that cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty_in: Option<EmptyIn>,
    /// The worst cause for which its jobs wait; absent if there is none, or if that cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<CauseReport>,
    /// Why its jobs wait: at most ten causes, the worst first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<CauseReport>,
    /// How much memory it takes, if that was asked for and Redis tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Why that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_error: Option<String>,
    /// The types of waiting jobs that no live worker knows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unserved_types: Vec<UnservedType>,
    /// The keys that cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<UnreadKey>)]
    pub unread: Vec<Unread>,
    /// Why the queue cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When the next delayed job is due, and the time by Redis's clock.
    #[serde(skip)]
    pub due: Option<(Timestamp, Timestamp)>,
}

/// One lane.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
#[schema(as = QueueLane)]
#[non_exhaustive]
pub struct LaneReport {
    /// Its name.
    pub lane: &'static str,
    /// How many jobs wait.
    pub waiting: Option<u64>,
    /// How many jobs run.
    pub running: Option<u64>,
    /// How long its oldest job has waited in it; null if none waits.
    pub oldest_waiting_age_ms: Option<u64>,
}

/// A key that cannot be read, and why: what [`Unread`] looks like in JSON.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "it only describes a type of the library")]
struct UnreadKey {
    key: String,
    error: String,
}

/// Counts the jobs of these queues. A queue that cannot be read does not hide the others.
pub async fn list(broker: &Broker, names: Vec<QueueName>, with_memory: bool) -> Vec<QueueReport> {
    let queues: Vec<Queue> = names.into_iter().map(|name| broker.queue(name)).collect();
    stream::iter(queues).map(|queue| show(queue, with_memory)).buffered(AT_ONCE).collect().await
}

/// Counts the jobs of one queue.
pub async fn show(queue: Queue, with_memory: bool) -> QueueReport {
    let looking = async {
        let snapshot = queue.snapshot().await?;
        let consumers = consumers(&queue, &snapshot.unread).await?;
        let unserved_types = types(&queue).await;
        let (empty_in, causes) = outlook(&queue, &snapshot).await;
        let (cause, known) = (causes.first().cloned(), report(&queue, &snapshot, consumers.len()));
        Ok(QueueReport { unserved_types, empty_in, cause, causes, ..known })
    };
    let mut report = looking.await.unwrap_or_else(|error| unknown(&queue, &error));
    if with_memory && report.error.is_none() {
        match queue.memory().await {
            Ok(bytes) => report.memory_bytes = Some(bytes),
            Err(error) => report.memory_error = Some(queue.with_keys(&error)),
        }
    }
    report
}

impl QueueReport {
    /// Returns true if the queue has no jobs and nobody serves it, as far as is known.
    pub fn is_empty(&self) -> bool {
        let counts = [self.waiting, self.running, self.delayed, self.dead];
        counts.iter().all(|count| *count == Some(0)) && self.consumers == Some(0) && self.leader.is_none()
    }
}

/// The names of the members of a queue's groups.
async fn consumers(queue: &Queue, unread: &[Unread]) -> Result<BTreeSet<String>, RedisError> {
    let mut names = BTreeSet::new();
    for lane in Lane::ALL.into_iter().filter(|lane| !Unread::is_among(Part::Lane(*lane), unread)) {
        let members = queue.consumers(lane).await?;
        names.extend(members.into_iter().map(|consumer| consumer.name));
    }
    Ok(names)
}

fn report(queue: &Queue, snapshot: &QueueSnapshot, consumers: usize) -> QueueReport {
    let instant = |entry: EntryId| Timestamp::from_ms(entry.ms).unwrap_or(Timestamp::MAX);
    let age_ms = |entry: EntryId| snapshot.now.as_ms().saturating_sub(entry.ms);
    let (oldest, age) = (snapshot.oldest_entry().map(instant), snapshot.oldest_waiting());
    let is_known = |part: Part| !Unread::is_among(part, &snapshot.unread);
    let lane = |(lane, figures): (Lane, &LaneSnapshot)| {
        let known = Some(figures).filter(|_| is_known(Part::Lane(lane)));
        LaneReport {
            lane: lane.as_str(),
            waiting: known.map(|figures| figures.waiting),
            running: known.map(|figures| figures.running),
            oldest_waiting_age_ms: known.and_then(|figures| figures.oldest_waiting).map(age_ms),
        }
    };
    // If a part of a sum is missing, so is the sum.
    let lanes = Lane::ALL.into_iter().all(|lane| is_known(Part::Lane(lane)));
    QueueReport {
        queue: queue.name().to_string(),
        waiting: lanes.then(|| snapshot.waiting()),
        running: lanes.then(|| snapshot.running()),
        delayed: is_known(Part::Delayed).then_some(snapshot.delayed),
        dead: is_known(Part::Dead).then_some(snapshot.dead),
        in_rooms: is_known(Part::Waitlists).then_some(snapshot.in_rooms),
        in_fair_rooms: Some(snapshot.in_fair_rooms).filter(|jobs| *jobs > 0),
        paused_since: snapshot.closed_since.map(rfc3339),
        paused_since_ms: snapshot.closed_since.map(|time| time.as_ms()),
        backlog: snapshot.uncounted().next().is_none().then(|| snapshot.jobs()),
        lanes: Lane::ALL.into_iter().zip(&snapshot.lanes).map(lane).collect(),
        next_due: snapshot.next_due.map(rfc3339),
        next_due_ms: snapshot.next_due.map(|time| time.as_ms()),
        oldest_waiting: oldest.map(rfc3339),
        oldest_waiting_ms: oldest.map(|time| time.as_ms()),
        oldest_waiting_age_ms: age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        consumers: Some(consumers),
        leader: snapshot.leader.clone(),
        unread: snapshot.unread.clone(),
        due: snapshot.next_due.map(|due| (due, snapshot.now)),
        ..QueueReport::default()
    }
}

/// The report on a queue that cannot be read, with the reason.
fn unknown(queue: &Queue, error: &RedisError) -> QueueReport {
    let lanes = Lane::ALL.into_iter().map(|lane| LaneReport { lane: lane.as_str(), ..LaneReport::default() });
    QueueReport {
        queue: queue.name().to_string(),
        lanes: lanes.collect(),
        error: Some(queue.with_keys(error)),
        ..QueueReport::default()
    }
}
