//! How a worker and its queues are configured, and within which bounds.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::DeadArchive;
use crate::broker::LetterLimits;
use crate::job::number::{count, some_count};
use crate::job::{FairShare, GateName, JobType, Limits, OutOfBounds, QueueName, Rules, Tracking};
use crate::job::{bounds, duration, size, written_limits};

const HOUR: Duration = Duration::from_secs(3600);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
const LEASE: RangeInclusive<Duration> = Duration::from_millis(500)..=HOUR;
const RETENTION: RangeInclusive<Duration> = Duration::from_secs(1)..=YEAR;
const LIFETIME: RangeInclusive<Duration> = RETENTION;
/// A dead letter must be kept long enough for somebody to inspect it.
const DEAD_RETENTION: RangeInclusive<Duration> =
    Duration::from_secs(60)..=Duration::from_secs(10 * 365 * 24 * 3600);
const CONCURRENCY: RangeInclusive<usize> = 1..=100_000;
const MOST_PREFETCH: usize = 100_000;
/// A worker uses about this much memory before its first job.
const LEAST_RSS: u64 = 16 * 1024 * 1024;

with_defaults! {
    /// The settings of a worker; see the [example](crate::FleetConfig).
    ///
    /// A worker stops on its own, if `max_jobs`, `max_lifetime` or `max_rss` says so: gracefully, as for a signal, so that the
    /// supervisor of the process starts a fresh one. This helps against handlers that leak.
    #[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
    #[serde(default, deny_unknown_fields)]
    #[non_exhaustive]
    pub struct Config {
        /// How long an entry may be silent before another worker claims it; 500 ms to 1 h, by default 15 s. The fleet has one lease per queue:
        /// that of the first worker.
        #[serde(with = "duration")]
        pub lease: Duration = Duration::from_secs(15),
        /// How long running handlers get to finish when the worker stops; at most 1 h, by default 60 s.
        #[serde(with = "duration")]
        pub drain_timeout: Duration = Duration::from_secs(60),
        /// The number of unstarted entries to keep beyond the free slots; at most 100,000, by default none.
        #[serde(deserialize_with = "count")]
        pub prefetch: usize = 0,
        /// How long the record of a done or cancelled job is kept; 1 s to 365 days, by default 3 days. That of a dead job is kept with its
        /// dead letter.
        #[serde(with = "duration")]
        pub retention: Duration = Duration::from_secs(3 * 24 * 3600),
        /// How long jobs wait for a worker that knows their type, while no live worker does, before they are dead; at most 365 days, by
        /// default 24 h.
        #[serde(with = "duration")]
        pub unroutable_after: Duration = Duration::from_secs(24 * 3600),
        /// The worker stops after this many attempts over all queues, at least 1; by default, never. Beyond it, at most as many more start as run at
        /// once.
        #[serde(deserialize_with = "some_count", skip_serializing_if = "Option::is_none")]
        pub max_jobs: Option<u64> = None,
        /// The worker stops after this long, 1 s to 365 days, minus up to a tenth at random, so that workers that started together do
        /// not stop together.
        #[serde(with = "duration::some", skip_serializing_if = "Option::is_none")]
        pub max_lifetime: Option<Duration> = None,
        /// The worker stops when this process has this many bytes in RAM, at least 16 MiB, checked every second. Programs that it has
        /// started do not count. Only on Linux.
        #[serde(with = "size", skip_serializing_if = "Option::is_none")]
        pub max_rss: Option<u64> = None,
        /// Where dead letters go before retention drops them; by default, nowhere. A configuration file has it as `[dead]`.
        #[serde(skip)]
        pub archive: DeadArchive = DeadArchive::default(),
        /// What the gates of types let through at most, in each queue, over the whole fleet; by default, everything. This is for the types
        /// that the process has handlers for.
        #[serde(skip)]
        pub type_limits: BTreeMap<JobType, Limits> = BTreeMap::new(),
        /// The queues to serve; by default, the one that is named `default`. A configuration file has them as `[queues.<name>]`.
        #[serde(skip)]
        pub queues: BTreeMap<QueueName, QueueConfig> = BTreeMap::from([(
            "default".parse().expect("default is a valid queue name"),
            QueueConfig::default(),
        )]),
    }
}

with_defaults! {
    /// How one queue is served; see the [example](crate::FleetConfig).
    #[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
    #[serde(default, deny_unknown_fields)]
    #[non_exhaustive]
    pub struct QueueConfig {
        /// The number of handlers of this queue that run at once in this process; 1 to 100,000, by default 64.
        #[serde(deserialize_with = "count")]
        pub concurrency: usize = 64,
        /// The most jobs that the queue accepts, at least 1, counting those that wait, run or are due later. `None` for any number.
        #[serde(deserialize_with = "some_count", skip_serializing_if = "Option::is_none")]
        pub max_depth: Option<u64> = None,
        /// Which jobs leave a record if neither they nor their type say; by default, [`Tracking::Failures`].
        pub tracking: Tracking = Tracking::default(),
        /// How long records of finished jobs are kept, 1 s to 365 days, instead of [`Config::retention`].
        #[serde(with = "duration::some", skip_serializing_if = "Option::is_none")]
        pub retention: Option<Duration> = None,
        /// How long dead letters are kept, 1 min to 10 years; `None` means forever.
        #[serde(with = "duration::some", skip_serializing_if = "Option::is_none")]
        pub dead_retention: Option<Duration> = None,
        /// The number of dead letters to keep, the newest ones, at least 1; `None` for all.
        #[serde(deserialize_with = "some_count", skip_serializing_if = "Option::is_none")]
        pub dead_max: Option<u64> = None,
        /// What the queue's gate lets through at most. This applies to the whole fleet.
        #[serde(with = "written_limits", skip_serializing_if = "Limits::is_empty")]
        pub limits: Limits = Limits::default(),
        /// The limits of the gates of fields, at most 8: `key:<field>` for each value, `key:<field>=<value>` for one.
        #[serde(rename = "keys", with = "written_limits::by_key", skip_serializing_if = "BTreeMap::is_empty")]
        pub key_limits: BTreeMap<GateName, Limits> = BTreeMap::new(),
        /// The field between whose values the queue is shared, such as `h.tenant`. This applies to the whole fleet.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub fair_by: Option<String> = None,
        /// How many jobs of a value of that field start in each of its turns, instead of 1; at most 100, for at most 100 values.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub fair_weights: BTreeMap<String, u32> = BTreeMap::new(),
        /// Whether the workers write the fields of jobs that did not fail into the queue's journal, if it has one.
        #[serde(skip)]
        pub journal_fields: bool = false,
    }
}

impl Config {
    setters! {
        lease: Duration;
        drain_timeout: Duration;
        prefetch: usize;
        retention: Duration;
        unroutable_after: Duration;
        max_jobs: impl Into<Option<u64>> => max_jobs.into();
        max_lifetime: impl Into<Option<Duration>> => max_lifetime.into();
        max_rss: impl Into<Option<u64>> => max_rss.into();
        archive: DeadArchive;
        type_limits: impl IntoIterator<Item = (JobType, Limits)> => type_limits.into_iter().collect();
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

    /// Returns everything that is out of its bounds, with the keys that a configuration file has for it.
    pub fn check(&self) -> Vec<OutOfBounds> {
        let own = self.wrong().into_iter().map(|wrong| wrong.below(&["worker"]));
        let archive = self.archive.check().into_iter().map(|wrong| wrong.below(&["dead"]));
        let reason = "names no queue; a worker would have nothing to do";
        let none = self.queues.is_empty().then(|| OutOfBounds::new("queues", reason));
        let queues = self.queues.iter().flat_map(|(name, queue)| {
            queue.check().into_iter().map(move |wrong| wrong.below(&["queues", name.as_str()]))
        });
        let types = self.type_limits.iter().filter_map(|(name, limits)| {
            limits.check().map(|wrong| wrong.below(&["types", name.as_str(), "limits"]))
        });
        own.chain(archive).chain(none).chain(queues).chain(types).collect()
    }

    /// Returns which of the worker's own values are out of their bounds.
    fn wrong(&self) -> Vec<OutOfBounds> {
        let many = format!("is {}, but must be at most {MOST_PREFETCH}", self.prefetch);
        let problems = [
            bounds::time("lease", self.lease, &LEASE),
            bounds::time("drain_timeout", self.drain_timeout, &(Duration::ZERO..=HOUR)),
            bounds::time("retention", self.retention, &RETENTION),
            bounds::time("unroutable_after", self.unroutable_after, &(Duration::ZERO..=YEAR)),
            (self.prefetch > MOST_PREFETCH).then(|| OutOfBounds::new("prefetch", many)),
            self.max_jobs.and_then(|most| bounds::at_least_one("max_jobs", most)),
            self.max_lifetime.and_then(|most| bounds::time("max_lifetime", most, &LIFETIME)),
            self.max_rss
                .filter(|most| *most < LEAST_RSS)
                .map(|_| OutOfBounds::new("max_rss", "must be at least 16MiB")),
        ];
        problems.into_iter().flatten().collect()
    }
}

impl QueueConfig {
    setters! {
        concurrency: usize;
        max_depth: impl Into<Option<u64>> => max_depth.into();
        tracking: Tracking;
        retention: impl Into<Option<Duration>> => retention.into();
        dead_retention: impl Into<Option<Duration>> => dead_retention.into();
        dead_max: impl Into<Option<u64>> => dead_max.into();
        limits: Limits;
        key_limits: impl IntoIterator<Item = (GateName, Limits)> => key_limits.into_iter().collect();
        journal_fields: bool;
    }

    /// Sets how the queue is shared between the values of a field, over the whole fleet; `None`, the default, means that jobs start
    /// in the order of their arrival.
    #[must_use]
    pub fn fair(self, share: impl Into<Option<FairShare>>) -> Self {
        let share = share.into();
        let fair_by = share.as_ref().map(|share| share.field().to_owned());
        let fair_weights = share.map(|share| share.weights().clone()).unwrap_or_default();
        Self { fair_by, fair_weights, ..self }
    }

    /// Returns how the queue is shared, if it is, or what is wrong with that.
    pub(super) fn share(&self) -> Result<Option<FairShare>, OutOfBounds> {
        let Some(field) = &self.fair_by else {
            let reason = "has no effect without fair_by, the field that has the values, such as \"h.tenant\"";
            let is_useless = !self.fair_weights.is_empty();
            return if is_useless { Err(OutOfBounds::new("fair_weights", reason)) } else { Ok(None) };
        };
        let share = FairShare::new(field).map_err(|error| OutOfBounds::new("fair_by", error.to_string()))?;
        let weigh = |share: FairShare, (value, weight): (&String, &u32)| share.weight(value, *weight);
        let weighed = self.fair_weights.iter().try_fold(share, weigh);
        weighed.map(Some).map_err(|error| OutOfBounds::new("fair_weights", error.to_string()))
    }

    /// Returns everything that is out of its bounds.
    pub fn check(&self) -> Vec<OutOfBounds> {
        let no_jobs = |key: &str, most: Option<u64>| {
            let reason = "is 0, but must be at least 1; leave it out for no limit";
            (most == Some(0)).then(|| OutOfBounds::new(key, reason))
        };
        let (keys, most) = (self.key_limits.len(), Rules::MAX_FIELDS);
        let many = format!("has {keys} keys, but must have at most {most}");
        let problems = [
            bounds::number("concurrency", self.concurrency, &CONCURRENCY),
            no_jobs("max_depth", self.max_depth),
            self.retention.and_then(|time| bounds::time("retention", time, &RETENTION)),
            self.dead_retention.and_then(|time| bounds::time("dead_retention", time, &DEAD_RETENTION)),
            no_jobs("dead_max", self.dead_max),
            self.limits.check().map(|wrong| wrong.below(&["limits"])),
            (keys > most).then(|| OutOfBounds::new("keys", many)),
            self.share().err(),
        ];
        let of_keys = self.key_limits.iter().filter_map(|(gate, limits)| {
            limits.check().map(|wrong| wrong.below(&["keys", written_limits::key(gate)]))
        });
        problems.into_iter().flatten().chain(of_keys).collect()
    }
}
