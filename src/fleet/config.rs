//! What one process of the fleet is configured with, and within which bounds.

use crate::job::OutOfBounds;
use crate::{broker, hooks, worker};

/// The configuration of one process of the fleet.
///
/// ```
/// # fn example() -> Result<(), streamfleet::job::InvalidName> {
/// use std::time::Duration;
///
/// use streamfleet::FleetConfig;
/// use streamfleet::worker::{Config, QueueConfig};
///
/// let mail = QueueConfig::default().concurrency(8).max_depth(100_000);
/// let worker = Config::default().lease(Duration::from_secs(30)).queues([("mail".parse()?, mail)]);
/// let config = FleetConfig::default().redis("redis://redis.internal:6379").worker(worker);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Config {
    /// How to connect to Redis.
    pub redis: broker::Config,
    /// How the worker runs jobs.
    pub worker: worker::Config,
    /// Who is notified about jobs.
    pub events: hooks::Config,
}

impl Config {
    setters! {
        /// Sets how to connect to Redis: to an address, such as `redis://127.0.0.1:6379`, or with a [`RedisConfig`](crate::RedisConfig).
        redis: impl Into<broker::Config> => redis.into();
        /// Sets how the worker runs jobs.
        worker: worker::Config;
        /// Sets who is notified about jobs.
        events: hooks::Config;
    }

    /// Returns everything that is out of its bounds, with the keys that a configuration file has for it. [`Fleet::run`] refuses it.
    /// The address of Redis is checked when it is used.
    pub fn check(&self) -> Vec<OutOfBounds> {
        let events = self.events.check().into_iter().map(|wrong| wrong.below(&["events"]));
        self.worker.check().into_iter().chain(events).collect()
    }
}
