//! The worker: four stages, one way. The reader takes entries and makes deliveries of them; the
//! dispatcher hands these to free slots; the executor runs one and says how it ended; the
//! settler has Redis draw the consequences. The heartbeat keeps the leases of all that is held.
//!
//! Stopping goes the same way: the reader ends, what had not started goes back, running handlers get time, then they are
//! cancelled, and the settler ends when the last outcome is settled.

mod clock;
mod delivery;
mod dispatcher;
mod executor;
mod flight;
mod handler;
mod heartbeat;
mod middleware;
mod outbox;
mod patience;
mod process;
mod pulse;
mod reader;
mod registry;
mod settler;
mod station;

use std::collections::BTreeMap;
use std::time::Duration;

pub use handler::{Handler, JobContext, JobError, MAX_RESULT_BYTES, Payload, RawPayload};
pub use middleware::{Handled, Middleware, Next};
pub use process::Worker;
pub(crate) use pulse::Pulse;
pub use registry::Registry;

use crate::job::QueueName;

/// How a worker works.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// How long an entry may be silent before another worker takes it over. The fleet has one lease per queue: the first
    /// worker's.
    pub lease: Duration,
    /// How long running handlers get to end when the worker stops.
    pub drain_timeout: Duration,
    /// Unstarted entries kept at hand beyond the free slots.
    pub prefetch: usize,
    /// How long the record of a job that succeeded is kept.
    pub retention: Duration,
    /// How long jobs of unknown types are offered to other workers.
    pub unroutable_after: Duration,
    /// The queues to serve.
    pub queues: BTreeMap<QueueName, QueueConfig>,
}

/// How one queue is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueConfig {
    /// How many handlers of this queue run at once in this process.
    pub concurrency: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            drain_timeout: Duration::from_secs(60),
            prefetch: 0,
            retention: Duration::from_secs(3 * 24 * 3600),
            unroutable_after: Duration::from_secs(24 * 3600),
            queues: BTreeMap::from([(
                "default".parse().expect("default is a queue name"),
                QueueConfig::default(),
            )]),
        }
    }
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self { concurrency: 64 }
    }
}
