//! The worker: four stages, one way. The reader takes entries and makes deliveries of them; the
//! dispatcher hands these to free slots; the executor runs one and says how it ended; the
//! settler has Redis draw the consequences. The heartbeat keeps the leases of all that is held.
//!
//! Stopping goes the same way: the reader ends, what had not started goes back, running handlers get time, then they are
//! cancelled, and the settler ends when the last outcome is settled.

mod aside;
mod backoff;
mod clock;
mod delivery;
mod dispatcher;
mod executor;
mod handler;
mod heartbeat;
#[cfg(feature = "testing")]
mod inline;
mod joiner;
mod lease;
mod middleware;
mod outbox;
mod process;
mod queue_worker;
mod quota;
mod read_clock;
mod reader;
mod registry;
mod report;
mod reporter;
mod settler;
mod steps;

use std::collections::BTreeMap;
use std::time::Duration;

pub use handler::{Handler, JobContext, JobError, MAX_RESULT_BYTES, Payload, RawPayload};
#[cfg(feature = "testing")]
pub(crate) use inline::{Circumstances, Inline, inline};
pub use middleware::{Handled, Middleware, Next};
pub(crate) use process::Served;
pub use process::Worker;
pub(crate) use quota::Quota;
pub use registry::Registry;
pub use steps::{Steps, StepsBuilder};

use crate::broker::LetterLimits;
use crate::job::{QueueName, Tracking};

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
    /// How long the record of a job that is done or cancelled is kept. That of a dead one is kept with its letter.
    pub retention: Duration,
    /// How long jobs of unknown types are offered to other workers.
    pub unroutable_after: Duration,
    /// When the worker stops by itself, to be started anew.
    pub recycle: Recycle,
    /// The queues to serve.
    pub queues: BTreeMap<QueueName, QueueConfig>,
}

/// When a worker stops by itself: in good order, as for a signal, so that whoever supervises the process starts a fresh
/// one. By default never. It helps against handlers that leak.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recycle {
    /// After so many attempts, over all queues; at most as many as run at once start beyond it.
    pub max_jobs: Option<u64>,
    /// After this long; chance takes up to a tenth away, so that workers that started together do not stop together.
    pub max_lifetime: Option<Duration>,
    /// When this process has so many bytes in RAM, looked at every second. Programs that it has started do not count.
    pub max_rss: Option<u64>,
}

/// How one queue is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueConfig {
    /// How many handlers of this queue run at once in this process.
    pub concurrency: usize,
    /// The most jobs that the queue takes: those that wait, run or are due later. `None` for any number.
    pub max_depth: Option<u64>,
    /// Which jobs leave a record, where neither they nor their type say.
    pub tracking: Tracking,
    /// How long records of finished jobs are kept, in place of [`Config::retention`].
    pub retention: Option<Duration>,
    /// How long dead letters are kept; `None` for ever.
    pub dead_retention: Option<Duration>,
    /// How many dead letters are kept, the newest; `None` for all.
    pub dead_max: Option<u64>,
}

impl Config {
    /// How a queue is served; the default for one that is not named.
    pub(crate) fn queue(&self, name: &QueueName) -> QueueConfig {
        self.queues.get(name).cloned().unwrap_or_default()
    }

    /// Which dead letters a queue keeps.
    pub(crate) fn letters_of(&self, name: &QueueName) -> LetterLimits {
        let queue = self.queue(name);
        LetterLimits { retention: queue.dead_retention, most: queue.dead_max }
    }

    /// How long records of a queue's finished jobs are kept.
    pub fn retention_of(&self, name: &QueueName) -> Duration {
        self.queues.get(name).and_then(|queue| queue.retention).unwrap_or(self.retention)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            drain_timeout: Duration::from_secs(60),
            prefetch: 0,
            retention: Duration::from_secs(3 * 24 * 3600),
            unroutable_after: Duration::from_secs(24 * 3600),
            recycle: Recycle::default(),
            queues: BTreeMap::from([(
                "default".parse().expect("default is a queue name"),
                QueueConfig::default(),
            )]),
        }
    }
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            concurrency: 64,
            tracking: Tracking::default(),
            retention: None,
            max_depth: None,
            dead_retention: None,
            dead_max: None,
        }
    }
}
