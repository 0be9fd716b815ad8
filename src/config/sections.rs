//! The sections of the configuration, as the file has them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::objectives::ObjectivesSection;
use super::steps::StepSection;
use super::values;
use crate::cron::Missed;
use crate::job::{Backoff, CronName, Encoding, JobType, Lane, Policy, QueueName, StepName, Tracking};
use crate::producer::MAX_PAYLOAD_BYTES;
use crate::{broker, handlers, hooks, telemetry, worker};

/// The whole configuration.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where Redis is.
    #[serde(serialize_with = "super::show::redis")]
    pub redis: broker::Config,
    /// How a worker works.
    pub worker: WorkerSection,
    /// The queues a worker serves.
    #[serde(with = "values::named")]
    pub queues: BTreeMap<QueueName, QueueSection>,
    /// The types of jobs, and what runs them.
    #[serde(with = "values::named")]
    pub types: BTreeMap<JobType, TypeSection>,
    /// Recurring jobs.
    #[serde(with = "values::named")]
    pub cron: BTreeMap<CronName, CronSection>,
    /// The streams of events.
    pub events: EventsSection,
    /// Logs, metrics and probes.
    pub telemetry: telemetry::Config,
}

impl Default for Config {
    fn default() -> Self {
        let default = default_queue();
        Self {
            redis: broker::Config::default(),
            worker: WorkerSection::default(),
            queues: BTreeMap::from([(default, QueueSection::default())]),
            types: BTreeMap::new(),
            cron: BTreeMap::new(),
            events: EventsSection::default(),
            telemetry: telemetry::Config::default(),
        }
    }
}

/// How a worker works; see [`worker::Config`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkerSection {
    /// How long an entry may be silent before another worker takes it over.
    #[serde(with = "values::duration")]
    pub lease: Duration,
    /// How long running handlers get to end when the worker stops.
    #[serde(with = "values::duration")]
    pub drain_timeout: Duration,
    /// Unstarted entries kept at hand beyond the free slots.
    #[serde(deserialize_with = "values::count")]
    pub prefetch: usize,
    /// How long the record of a job that is done or cancelled is kept.
    #[serde(with = "values::duration")]
    pub retention: Duration,
    /// How long jobs of unknown types are offered to other workers.
    #[serde(with = "values::duration")]
    pub unroutable_after: Duration,
    /// After so many attempts the worker stops, to be started anew; see [`worker::Recycle`].
    #[serde(deserialize_with = "values::some_count", skip_serializing_if = "Option::is_none")]
    pub max_jobs: Option<u64>,
    /// After this long the worker stops, to be started anew.
    #[serde(with = "values::some_duration", skip_serializing_if = "Option::is_none")]
    pub max_lifetime: Option<Duration>,
    /// With so many bytes of memory the worker stops, to be started anew.
    #[serde(with = "values::some_size", skip_serializing_if = "Option::is_none")]
    pub max_rss: Option<u64>,
}

impl Default for WorkerSection {
    fn default() -> Self {
        let worker::Config {
            lease,
            drain_timeout,
            prefetch,
            retention,
            unroutable_after,
            recycle,
            queues: _,
        } = worker::Config::default();
        let worker::Recycle { max_jobs, max_lifetime, max_rss } = recycle;
        Self { lease, drain_timeout, prefetch, retention, unroutable_after, max_jobs, max_lifetime, max_rss }
    }
}

/// How one queue is served.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueSection {
    /// How many handlers of this queue run at once in one process.
    #[serde(deserialize_with = "values::count")]
    pub concurrency: usize,
    /// Which jobs leave a record, where neither they nor their type say.
    #[serde(with = "values::tracking")]
    pub tracking: Tracking,
    /// How long records of finished jobs are kept, in place of the worker's `retention`.
    #[serde(with = "values::optional_duration", skip_serializing_if = "Option::is_none")]
    pub retention: Option<Duration>,
    /// The most jobs that the queue takes.
    #[serde(deserialize_with = "values::some_count", skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u64>,
    /// How long dead letters are kept.
    #[serde(with = "values::some_duration", skip_serializing_if = "Option::is_none")]
    pub dead_retention: Option<Duration>,
    /// How many dead letters are kept, the newest.
    #[serde(deserialize_with = "values::some_count", skip_serializing_if = "Option::is_none")]
    pub dead_max: Option<u64>,
    /// The most bytes that a payload of `streamfleet enqueue` has.
    #[serde(deserialize_with = "values::count")]
    pub max_payload: usize,
    /// What its users may expect of it.
    pub objectives: ObjectivesSection,
}

impl Default for QueueSection {
    fn default() -> Self {
        let worker::QueueConfig { concurrency, tracking, retention, max_depth, dead_retention, dead_max } =
            worker::QueueConfig::default();
        let (max_payload, objectives) = (MAX_PAYLOAD_BYTES, ObjectivesSection::default());
        Self {
            concurrency,
            tracking,
            retention,
            max_depth,
            dead_retention,
            dead_max,
            max_payload,
            objectives,
        }
    }
}

/// What is told of jobs; see [`hooks::Config`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct EventsSection {
    /// What goes to the stream `events` of each queue.
    pub publish: hooks::Publish,
    /// About so many events are kept in each stream.
    #[serde(deserialize_with = "values::count")]
    pub max_length: u64,
    /// How often the lengths of queues are told.
    #[serde(with = "values::duration")]
    pub queue_length_every: Duration,
}

impl Default for EventsSection {
    fn default() -> Self {
        let hooks::Config { publish, max_length, queue_length_every, hook_timeout: _ } =
            hooks::Config::default();
        Self { publish, max_length, queue_length_every }
    }
}

/// What runs the jobs of one type, and what it allows them; see [`Policy`].
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct TypeSection {
    /// What runs the jobs. A worker refuses to start without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler: Option<handlers::Config>,
    /// In place of a handler: the steps that the jobs are made of.
    #[serde(with = "values::some_named", skip_serializing_if = "Option::is_none")]
    pub steps: Option<BTreeMap<StepName, StepSection>>,
    /// How long one attempt may run; of jobs that are made of steps, one step.
    #[serde(with = "values::duration")]
    pub timeout: Duration,
    /// How many failures bury a job.
    #[serde(deserialize_with = "values::count")]
    pub max_attempts: u32,
    /// How many lost workers bury a job.
    #[serde(deserialize_with = "values::count")]
    pub max_losses: u32,
    /// The pause before a retry.
    #[serde(with = "BackoffSection")]
    pub backoff: Backoff,
    /// How much of a pause chance may add or take away.
    #[serde(deserialize_with = "values::fraction")]
    pub jitter: f64,
    /// Which jobs leave a record; default: as the queue says.
    #[serde(with = "values::optional_tracking", skip_serializing_if = "Option::is_none")]
    pub tracking: Option<Tracking>,
}

impl Default for TypeSection {
    fn default() -> Self {
        let Policy { timeout, max_attempts, max_losses, backoff, jitter, tracking } = Policy::default();
        Self { handler: None, steps: None, timeout, max_attempts, max_losses, backoff, jitter, tracking }
    }
}

impl TypeSection {
    /// What the type allows its jobs.
    pub fn policy(&self) -> Policy {
        let Self { handler: _, steps: _, timeout, max_attempts, max_losses, backoff, jitter, tracking } =
            self.clone();
        Policy { timeout, max_attempts, max_losses, backoff, jitter, tracking }
    }
}

/// A recurring job; see [`crate::cron::Entry`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CronSection {
    /// When: a cron expression.
    pub schedule: String,
    /// Whose clocks the expression means.
    #[serde(default = "utc")]
    pub timezone: String,
    /// Where the jobs go.
    #[serde(
        default = "default_queue",
        deserialize_with = "values::text",
        serialize_with = "values::shown_text"
    )]
    pub queue: QueueName,
    /// The type of the jobs.
    #[serde(rename = "type", deserialize_with = "values::text", serialize_with = "values::shown_text")]
    pub job_type: JobType,
    /// Their payload: a text as it is, anything else as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<serde_json::Value>,
    /// How the payload is written.
    #[serde(default, with = "EncodingSection")]
    pub encoding: Encoding,
    /// Their lane.
    #[serde(default, deserialize_with = "values::text", serialize_with = "values::shown_text")]
    pub lane: Lane,
    /// What becomes of ticks that nobody was there for.
    #[serde(default, with = "MissedSection")]
    pub missed: Missed,
}

fn utc() -> String {
    "UTC".to_owned()
}

fn default_queue() -> QueueName {
    "default".parse().expect("default is a queue name")
}

/// How the file writes an [`Encoding`].
#[derive(Deserialize, Serialize)]
#[serde(remote = "Encoding", rename_all = "snake_case")]
enum EncodingSection {
    Json,
    Msgpack,
    Raw,
}

/// How the file writes a [`Missed`].
#[derive(Deserialize, Serialize)]
#[serde(remote = "Missed", rename_all = "snake_case")]
enum MissedSection {
    Skip,
    One,
    All,
}

/// How the file writes a [`Backoff`].
#[derive(Deserialize, Serialize)]
#[serde(remote = "Backoff", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum BackoffSection {
    Fixed(#[serde(with = "values::duration")] Duration),
    List(#[serde(with = "values::durations")] Vec<Duration>),
    Linear {
        #[serde(with = "values::duration")]
        step: Duration,
        #[serde(with = "values::duration")]
        max: Duration,
    },
    Exponential {
        #[serde(with = "values::duration")]
        base: Duration,
        #[serde(default = "doubling", deserialize_with = "values::fraction")]
        factor: f64,
        #[serde(with = "values::duration")]
        max: Duration,
    },
}

fn doubling() -> f64 {
    2.0
}
