//! The worker: four stages in one direction. The reader reads entries and turns them into deliveries. The dispatcher
//! hands these to free slots. The executor runs one and returns how it ended. The settler has Redis apply the
//! consequences. The heartbeat keeps the leases of everything that is held.
//!
//! Shutdown goes the same way: the reader ends, what had not started goes back, running handlers get time, then they
//! are cancelled, and the settler ends when the last outcome is settled.
//!
//! Users of the library write a [`Handler`], [`Middleware`] around it, or the [`Steps`] of a job; each has an example.

mod admission;
mod alarm;
mod archive;
mod aside;
mod backlog;
mod backoff;
mod beginner;
mod clock;
mod delivery;
mod dispatcher;
mod duty;
mod executor;
mod gather;
mod handler;
mod heartbeat;
mod held_leases;
#[cfg(feature = "testing")]
mod inline;
mod joined_queue;
mod joiner;
mod lease;
mod limits;
mod load;
mod middleware;
mod outbox;
mod process;
mod queue_worker;
mod quota;
mod read_clock;
mod reader;
mod refused_rooms;
mod registry;
mod report;
mod reporter;
mod reproduce;
mod rooms;
mod rules_check;
mod settler;
mod sharer;
mod steps;
mod turns;

use std::collections::BTreeMap;
use std::time::Duration;

pub use archive::DeadArchive;
pub(crate) use duty::Duty;
pub use handler::{Handler, JobContext, MAX_RESULT_BYTES, Payload, RawPayload};
#[cfg(feature = "testing")]
pub(crate) use inline::{Inline, InlineOptions, inline};
pub(crate) use joiner::Served;
pub use middleware::{Handled, Middleware, Next};
pub(crate) use process::Worker;
pub(crate) use quota::Quota;
pub(crate) use registry::Registry;
pub(crate) use reproduce::reproduce;
#[doc(hidden)]
pub use reproduce::{Reproduced, ReproducedRun, Specimen};
pub use steps::{Steps, StepsBuilder};
pub use streamfleet_domain::job::JobError;

use crate::broker::LetterLimits;
use crate::job::{FairShare, GateName, JobType, Limits, QueueName, Tracking};

/// The settings of a worker; see the [example](crate::FleetConfig).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// How long an entry may be silent before another worker claims it. The fleet has one lease per queue: that of the first worker.
    pub lease: Duration,
    /// How long running handlers get to finish when the worker stops.
    pub drain_timeout: Duration,
    /// The number of unstarted entries to keep beyond the free slots.
    pub prefetch: usize,
    /// How long the record of a done or cancelled job is kept. That of a dead job is kept with its dead letter.
    pub retention: Duration,
    /// How long jobs wait for a worker that knows their type, while no live worker does, before they are dead.
    pub unroutable_after: Duration,
    /// When the worker stops on its own, to be started again.
    pub recycle: Recycle,
    /// Where dead letters go before retention drops them; `None` if they are dropped without a trace.
    pub archive: Option<DeadArchive>,
    /// What the gates of types let through at most, in each queue. They apply to the whole fleet.
    pub type_limits: BTreeMap<JobType, Limits>,
    /// The queues to serve.
    pub queues: BTreeMap<QueueName, QueueConfig>,
}

/// When a worker stops on its own: gracefully, as for a signal, so that the supervisor of the process starts a fresh
/// one. By default, never. This helps against handlers that leak.
///
/// ```
/// use std::time::Duration;
///
/// use streamfleet::worker::Recycle;
///
/// let daily = Recycle::default().max_lifetime(Duration::from_secs(24 * 3600)).max_rss(512 * 1024 * 1024);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recycle {
    /// After this many attempts over all queues. Beyond it, at most as many more start as run at once.
    pub max_jobs: Option<u64>,
    /// After this long, minus up to a tenth at random, so that workers that started together do not stop together.
    pub max_lifetime: Option<Duration>,
    /// When this process has this many bytes in RAM, checked every second. Programs that it has started do not count.
    pub max_rss: Option<u64>,
}

/// How one queue is served; see the [example](crate::FleetConfig).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct QueueConfig {
    /// The number of handlers of this queue that run at once in this process.
    pub concurrency: usize,
    /// The most jobs that the queue accepts, counting those that wait, run or are due later. `None` for any number.
    pub max_depth: Option<u64>,
    /// Which jobs leave a record if neither they nor their type say.
    pub tracking: Tracking,
    /// How long records of finished jobs are kept, instead of [`Config::retention`].
    pub retention: Option<Duration>,
    /// How long dead letters are kept; `None` means forever.
    pub dead_retention: Option<Duration>,
    /// The number of dead letters to keep, the newest ones; `None` for all.
    pub dead_max: Option<u64>,
    /// What the queue's gate lets through at most. This applies to the whole fleet.
    pub limits: Limits,
    /// The same for the gates of fields: `key:<field>` for each value, `key:<field>=<value>` for one.
    pub key_limits: BTreeMap<GateName, Limits>,
    /// How the queue is shared between the values of a field, such as its tenants, if it is. This applies to the whole fleet.
    pub fair: Option<FairShare>,
}

impl Config {
    setters! {
        /// Sets how long an entry may be silent before another worker claims it: 500 ms to 1 h, by default 15 s.
        lease: Duration;
        /// Sets how long running handlers get to finish when the worker stops: at most 1 h, by default 60 s.
        drain_timeout: Duration;
        /// Sets how many unstarted entries to keep beyond the free slots: at most 100,000, by default 0.
        prefetch: usize;
        /// Sets how long the record of a done or cancelled job is kept: 1 s to 365 days, by default 3 days.
        retention: Duration;
        /// Sets how long jobs wait for a worker that knows their type, while no live worker does: at most 365 days, by default
        /// 24 h.
        unroutable_after: Duration;
        /// Sets when the worker stops on its own; by default, never.
        recycle: Recycle;
        /// Sets where dead letters are written before retention drops them; `None`, the default, if nowhere.
        archive: impl Into<Option<DeadArchive>> => archive.into();
        /// Sets what the gates of types let through at most, over the whole fleet; by default, everything. This is for
        /// the types that the process has handlers for.
        type_limits: impl IntoIterator<Item = (JobType, Limits)> => type_limits.into_iter().collect();
        /// Sets the queues to serve; by default, the one that is named `default`.
        queues: impl IntoIterator<Item = (QueueName, QueueConfig)> => queues.into_iter().collect();
    }

    /// Returns how a queue is served; the default for a queue that is not named.
    pub(crate) fn queue(&self, name: &QueueName) -> QueueConfig {
        self.queues.get(name).cloned().unwrap_or_default()
    }

    /// Returns which dead letters a queue keeps.
    pub(crate) fn letters_of(&self, name: &QueueName) -> LetterLimits {
        let queue = self.queue(name);
        LetterLimits::default().retention(queue.dead_retention).most(queue.dead_max)
    }

    /// Returns how long records of a queue's finished jobs are kept.
    pub fn retention_of(&self, name: &QueueName) -> Duration {
        self.queues.get(name).and_then(|queue| queue.retention).unwrap_or(self.retention)
    }
}

impl Recycle {
    setters! {
        /// Sets after how many attempts over all queues the worker stops: at least 1, or `None` for any number.
        max_jobs: impl Into<Option<u64>> => max_jobs.into();
        /// Sets after how long the worker stops: 1 s to 365 days, or `None` for never.
        max_lifetime: impl Into<Option<Duration>> => max_lifetime.into();
        /// Sets at how many bytes in RAM the worker stops: at least 16 MiB, or `None` for any number. Only on Linux.
        max_rss: impl Into<Option<u64>> => max_rss.into();
    }
}

impl QueueConfig {
    setters! {
        /// Sets how many handlers of this queue run at once in this process: 1 to 100,000, by default 64.
        concurrency: usize;
        /// Sets the most jobs that the queue accepts: at least 1, or `None` for any number, the default.
        max_depth: impl Into<Option<u64>> => max_depth.into();
        /// Sets which jobs leave a record if neither they nor their type say; by default, [`Tracking::Failures`].
        tracking: Tracking;
        /// Sets how long records of finished jobs are kept: 1 s to 365 days, or `None` for [`Config::retention`].
        retention: impl Into<Option<Duration>> => retention.into();
        /// Sets how long dead letters are kept: 1 min to 10 years; `None`, the default, means forever.
        dead_retention: impl Into<Option<Duration>> => dead_retention.into();
        /// Sets how many dead letters are kept, the newest ones: at least 1, or `None` for all, the default.
        dead_max: impl Into<Option<u64>> => dead_max.into();
        /// Sets what the queue's gate lets through at most, over the whole fleet; by default, everything.
        limits: Limits;
        /// Sets the same for the gates of fields, at most 8 of them; by default, there are none.
        key_limits: impl IntoIterator<Item = (GateName, Limits)> => key_limits.into_iter().collect();
        /// Sets how the queue is shared between the values of a field, over the whole fleet; `None`, the default, means that
        /// jobs start in the order of their arrival.
        fair: impl Into<Option<FairShare>> => fair.into();
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
            archive: None,
            type_limits: BTreeMap::new(),
            queues: BTreeMap::from([(
                "default".parse().expect("default is a valid queue name"),
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
            limits: Limits::default(),
            key_limits: BTreeMap::new(),
            fair: None,
        }
    }
}
