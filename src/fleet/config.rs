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
    /// How to connect to Redis. The setter also takes an address, such as `redis://127.0.0.1:6379`.
    pub redis: broker::Config,
    /// How the worker runs jobs.
    pub worker: worker::Config,
    /// Who is notified about jobs.
    pub events: hooks::Config,
}

impl Config {
    setters! {
        redis: impl Into<broker::Config> => redis.into();
        worker: worker::Config;
        events: hooks::Config;
    }

    /// Returns everything that is out of its bounds, with the keys that a configuration file has for it.
    /// [`Fleet::run`](crate::Fleet::run) refuses it. The address of Redis is checked when it is used.
    pub fn check(&self) -> Vec<OutOfBounds> {
        let events = self.events.check().into_iter().map(|wrong| wrong.below(&["events"]));
        self.worker.check().into_iter().chain(events).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::job::{Backoff, Limits, Policy};
    use crate::worker::{DeadArchive, QueueConfig};
    use crate::{Fleet, Shutdown};

    const ZERO: Duration = Duration::ZERO;
    const AGES: Duration = Duration::from_secs(11 * 365 * 24 * 3600);

    fn wrong(worker: worker::Config) -> Vec<String> {
        let wrong = Config::default().worker(worker).check().into_iter();
        wrong.map(|wrong| wrong.to_string().split(": ").next().unwrap().to_owned()).collect()
    }

    fn wrong_queue(queue: QueueConfig) -> Vec<String> {
        wrong(worker::Config::default().queues([("mail".parse().unwrap(), queue)]))
    }

    #[test]
    fn each_value_of_a_worker_has_its_bounds() {
        let config = worker::Config::default;
        assert_eq!(wrong(config()), Vec::<String>::new());
        let shut = Limits::default().concurrency(0);
        let dead = |archive: DeadArchive| config().archive(archive);
        for (config, key) in [
            (config().lease(ZERO), "worker.lease"),
            (config().lease(Duration::from_secs(3601)), "worker.lease"),
            (config().drain_timeout(AGES), "worker.drain_timeout"),
            (config().prefetch(100_001), "worker.prefetch"),
            (config().retention(ZERO), "worker.retention"),
            (config().retention(AGES), "worker.retention"),
            (config().unroutable_after(AGES), "worker.unroutable_after"),
            (config().max_jobs(0), "worker.max_jobs"),
            (config().max_lifetime(ZERO), "worker.max_lifetime"),
            (config().max_rss(1), "worker.max_rss"),
            (config().queues([]), "queues"),
            (config().type_limits([("a.b".parse().unwrap(), shut)]), "types.\"a.b\".limits.concurrency"),
            (dead(DeadArchive::new("/a").rotate_size(1)), "dead.rotate_size"),
            (dead(DeadArchive::new("/a").rotate_after(ZERO)), "dead.rotate_after"),
            (dead(DeadArchive::new("")), "dead.archive"),
        ] {
            assert_eq!(wrong(config), [key]);
        }
        let least = config().lease(Duration::from_millis(500)).drain_timeout(ZERO).unroutable_after(ZERO);
        assert_eq!(wrong(least.max_rss(16 << 20)), Vec::<String>::new());
    }

    #[test]
    fn each_value_of_a_queue_has_its_bounds() {
        let queue = QueueConfig::default;
        let shut = Limits::default().concurrency(0);
        let by_tenant = [("key:h.tenant".parse().unwrap(), shut)];
        let many = (0..9).map(|nth| (format!("key:h.a{nth}").parse().unwrap(), Limits::default()));
        let (mut payload, mut weights) = (queue(), queue());
        payload.fair_by = Some("payload.tenant".to_owned());
        weights.fair_weights = [("9".to_owned(), 3)].into();
        for (queue, key) in [
            (queue().concurrency(0), "queues.mail.concurrency"),
            (queue().concurrency(100_001), "queues.mail.concurrency"),
            (queue().max_depth(0), "queues.mail.max_depth"),
            (queue().retention(ZERO), "queues.mail.retention"),
            (queue().dead_retention(Duration::from_secs(59)), "queues.mail.dead_retention"),
            (queue().dead_retention(AGES), "queues.mail.dead_retention"),
            (queue().dead_max(0), "queues.mail.dead_max"),
            (queue().limits(shut), "queues.mail.limits.concurrency"),
            (queue().key_limits(by_tenant), "queues.mail.keys.\"h.tenant\".concurrency"),
            (queue().key_limits(many), "queues.mail.keys"),
            (payload, "queues.mail.fair_by"),
            (weights, "queues.mail.fair_weights"),
        ] {
            assert_eq!(wrong_queue(queue), [key]);
        }
    }

    #[test]
    fn each_value_of_the_events_has_its_bounds() {
        let events = hooks::Config::default;
        for (events, key) in [
            (events().max_length(0), "events.max_length"),
            (events().queue_length_every(Duration::from_millis(999)), "events.queue_length_every"),
            (events().hook_timeout(ZERO), "events.hook_timeout"),
        ] {
            let wrong = Config::default().events(events).check();
            assert_eq!(wrong.len(), 1);
            assert!(wrong[0].to_string().starts_with(&format!("{key}: ")), "{wrong:?}");
        }
    }

    #[test]
    fn each_value_of_a_policy_has_its_bounds() {
        let policy = Policy::default;
        let long = "x".repeat(131);
        for (policy, key) in [
            (policy().timeout(ZERO), "timeout"),
            (policy().timeout(AGES), "timeout"),
            (policy().max_attempts(0), "max_attempts"),
            (policy().max_losses(0), "max_losses"),
            (policy().backoff(Backoff::List(Vec::new())), "backoff"),
            (policy().backoff(Backoff::Fixed(AGES)), "backoff"),
            (policy().jitter(1.5), "jitter"),
            (policy().jitter(f64::NAN), "jitter"),
            (policy().concurrency(0), "concurrency"),
            (policy().concurrency_per_key("h.tenant", 0), "concurrency_per_key"),
            (policy().concurrency_per_key(long, 1), "limit_key"),
            (policy().concurrency_per_key("payload", 1), "limit_key"),
        ] {
            let keys: Vec<_> = policy.check().into_iter().map(|wrong| wrong.path).collect();
            assert_eq!(keys, [[key]]);
        }
        assert_eq!(policy().check(), Vec::new());
    }

    async fn refusal(config: Config, policy: Policy) -> String {
        let config = config.redis("redis://127.0.0.1:1");
        let fleet = Fleet::builder(config).handler_with("a", policy, crate::handlers::Noop).unwrap().build();
        // It ends before it looks for Redis, which is not there.
        Box::pin(fleet.run(Shutdown::new())).await.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn a_fleet_does_not_start_with_a_value_out_of_its_bounds() {
        let config = Config::default().worker(worker::Config::default().lease(ZERO));
        let told = refusal(config, Policy::default()).await;
        assert_eq!(told, "worker.lease: is 0s, but must be between 500ms and 1h");
        let told = refusal(Config::default(), Policy::default().max_attempts(0)).await;
        assert_eq!(told, "types.a.max_attempts: is 0, but must be at least 1");
    }
}
