//! The samples of a queue, one a minute.

use std::time::Duration;

use serde::Serialize;
use streamfleet::Queue;
use streamfleet_engine::admin;

use crate::times::rfc3339;
use crate::{Error, List};

/// The samples, oldest first.
pub type Samples = List<Sample, SampleFacts>;

/// What is known about all samples.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct SampleFacts {
    /// The queue.
    pub queue: String,
}

/// What a queue had at one moment, and what happened since the sample before.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct Sample {
    /// When it was taken.
    pub at: String,
    /// When it was taken, in milliseconds since 1970.
    pub at_ms: u64,
    /// The time that the counts cover.
    pub span_ms: u64,
    /// How many jobs waited.
    pub waiting: u64,
    /// How many jobs ran.
    pub running: u64,
    /// How many jobs were delayed.
    pub delayed: u64,
    /// How many dead letters there were.
    pub dead: u64,
    /// How many of the waiting jobs waited for a gate, or for a worker that knows their type.
    pub in_rooms: u64,
    /// For how long the oldest waiting job had waited.
    pub oldest_waiting_age_ms: Option<u64>,
    /// How many jobs arrived.
    pub arrived: u64,
    /// How many jobs were done.
    pub done: u64,
    /// How many attempts failed.
    pub failed: u64,
    /// How many jobs were to be tried again.
    pub retried: u64,
    /// How many jobs died.
    pub died: u64,
    /// How many jobs were cancelled.
    pub cancelled: u64,
    /// The sample as it is stored.
    #[serde(skip)]
    pub figures: admin::Sample,
}

impl From<admin::Sample> for Sample {
    fn from(figures: admin::Sample) -> Self {
        Self {
            at: rfc3339(figures.at),
            at_ms: figures.at.as_ms(),
            span_ms: millis(figures.span),
            waiting: figures.waiting,
            running: figures.running,
            delayed: figures.delayed,
            dead: figures.dead,
            in_rooms: figures.in_rooms,
            oldest_waiting_age_ms: figures.oldest_waiting.map(millis),
            arrived: figures.arrived,
            done: figures.done,
            failed: figures.failed,
            retried: figures.retried,
            died: figures.died,
            cancelled: figures.cancelled,
            figures,
        }
    }
}

/// Lists the samples of this time.
///
/// # Errors
///
/// [`Error::Redis`].
pub async fn samples(queue: &Queue, since: Duration) -> Result<Samples, Error> {
    let read = queue.samples(since).await.map_err(Error::redis("failed to read the samples"))?;
    let facts = SampleFacts { queue: queue.name().to_string() };
    Ok(Samples { items: read.into_iter().map(Sample::from).collect(), next: None, facts, former: None })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
