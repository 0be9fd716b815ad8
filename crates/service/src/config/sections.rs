//! The sections of the configuration, as the file writes them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::console::ConsoleSection;
use super::limits::{KeyName, LimitsSection};
use super::objectives::ObjectivesSection;
use super::steps::StepSection;
use super::values;
use crate::cron::Missed;
use crate::job::duration;
use crate::job::{
    Backoff, CronName, Encoding, ErrorRules, FairShare, JobType, Lane, Policy, PoolName, QueueName, StepName,
    Tracking,
};
use crate::{alerts, broker, telemetry};
use streamfleet::producer::MAX_PAYLOAD_BYTES;
use streamfleet::{handlers, hooks, worker};

/// The whole configuration.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// The connection to Redis.
    #[serde(serialize_with = "super::show::redis")]
    pub redis: broker::Config,
    /// The worker's settings.
    pub worker: WorkerSection,
    /// The queues that a worker serves.
    #[serde(with = "values::named")]
    pub queues: BTreeMap<QueueName, QueueSection>,
    /// The archive of dead letters.
    pub dead: DeadSection,
    /// The pools of programs that types share.
    #[serde(with = "values::named", skip_serializing_if = "BTreeMap::is_empty")]
    pub pools: BTreeMap<PoolName, handlers::PoolConfig>,
    /// The job types, and what runs them.
    #[serde(with = "values::named")]
    pub types: BTreeMap<JobType, TypeSection>,
    /// Recurring jobs.
    #[serde(with = "values::named")]
    pub cron: BTreeMap<CronName, CronSection>,
    /// The event streams.
    pub events: EventsSection,
    /// Incidents, and messages about them. Without it, this process neither looks for incidents nor sends messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alerts: Option<alerts::Config>,
    /// Logs, metrics and probes.
    pub telemetry: telemetry::Config,
    /// The console.
    pub console: ConsoleSection,
}

impl Default for Config {
    fn default() -> Self {
        let default = default_queue();
        Self {
            redis: broker::Config::default(),
            worker: WorkerSection::default(),
            queues: BTreeMap::from([(default, QueueSection::default())]),
            dead: DeadSection::default(),
            pools: BTreeMap::new(),
            types: BTreeMap::new(),
            cron: BTreeMap::new(),
            events: EventsSection::default(),
            alerts: None,
            telemetry: telemetry::Config::default(),
            console: ConsoleSection::default(),
        }
    }
}

/// The worker's settings; see [`worker::Config`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct WorkerSection {
    /// How long a worker may go without renewing an entry's lease before another worker claims the entry.
    #[serde(with = "duration")]
    pub lease: Duration,
    /// How long running handlers have to finish when the worker stops.
    #[serde(with = "duration")]
    pub drain_timeout: Duration,
    /// How many unstarted entries the worker holds beyond its free slots.
    #[serde(deserialize_with = "values::count")]
    pub prefetch: usize,
    /// How long the record of a finished or cancelled job is kept.
    #[serde(with = "duration")]
    pub retention: Duration,
    /// How long jobs wait for a worker that knows their type, while no live worker does, before they are dead.
    #[serde(with = "duration")]
    pub unroutable_after: Duration,
    /// The worker stops after this many attempts, for its supervisor to restart it; see [`worker::Recycle`].
    #[serde(deserialize_with = "values::some_count", skip_serializing_if = "Option::is_none")]
    pub max_jobs: Option<u64>,
    /// The worker stops after this time, for its supervisor to restart it.
    #[serde(with = "values::some_duration", skip_serializing_if = "Option::is_none")]
    pub max_lifetime: Option<Duration>,
    /// The worker stops when it uses this many bytes of memory, for its supervisor to restart it.
    #[serde(with = "values::some_size", skip_serializing_if = "Option::is_none")]
    pub max_rss: Option<u64>,
}

impl Default for WorkerSection {
    fn default() -> Self {
        let worker::Config { lease, drain_timeout, prefetch, retention, unroutable_after, recycle, .. } =
            worker::Config::default();
        let worker::Recycle { max_jobs, max_lifetime, max_rss, .. } = recycle;
        Self { lease, drain_timeout, prefetch, retention, unroutable_after, max_jobs, max_lifetime, max_rss }
    }
}

/// The settings of one queue.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct QueueSection {
    /// How many handlers of this queue run at the same time in one process.
    #[serde(deserialize_with = "values::count")]
    pub concurrency: usize,
    /// Which jobs leave a record if neither they nor their type set it.
    #[serde(with = "values::tracking")]
    pub tracking: Tracking,
    /// How long records of finished jobs are kept, instead of the worker's `retention`.
    #[serde(with = "values::some_duration", skip_serializing_if = "Option::is_none")]
    pub retention: Option<Duration>,
    /// The largest number of jobs that the queue accepts.
    #[serde(deserialize_with = "values::some_count", skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u64>,
    /// How long dead letters are kept.
    #[serde(with = "values::some_duration", skip_serializing_if = "Option::is_none")]
    pub dead_retention: Option<Duration>,
    /// How many dead letters are kept. The newest ones stay.
    #[serde(deserialize_with = "values::some_count", skip_serializing_if = "Option::is_none")]
    pub dead_max: Option<u64>,
    /// The largest payload in bytes that `streamfleet enqueue` accepts.
    #[serde(deserialize_with = "values::count")]
    pub max_payload: usize,
    /// What the queue's gate lets through at most, over the whole fleet.
    #[serde(skip_serializing_if = "LimitsSection::is_empty")]
    pub limits: LimitsSection,
    /// The same for fields of its jobs: for each value, or for one.
    #[serde(with = "values::named", skip_serializing_if = "BTreeMap::is_empty")]
    pub keys: BTreeMap<KeyName, LimitsSection>,
    /// The field between whose values the queue is shared, such as `h.tenant`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fair_by: Option<String>,
    /// How many jobs of a value start in each of its turns, instead of 1.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub fair_weights: BTreeMap<String, u32>,
    /// The queue's service objectives.
    pub objectives: ObjectivesSection,
}

impl Default for QueueSection {
    fn default() -> Self {
        let worker::QueueConfig {
            concurrency, tracking, retention, max_depth, dead_retention, dead_max, ..
        } = worker::QueueConfig::default();
        let (max_payload, objectives) = (MAX_PAYLOAD_BYTES, ObjectivesSection::default());
        Self {
            concurrency,
            tracking,
            retention,
            max_depth,
            dead_retention,
            dead_max,
            max_payload,
            limits: LimitsSection::default(),
            keys: BTreeMap::new(),
            fair_by: None,
            fair_weights: BTreeMap::new(),
            objectives,
        }
    }
}

impl QueueSection {
    /// Returns how the queue is shared, if it is, or the key that is wrong, and why.
    pub(super) fn fair(&self) -> Result<Option<FairShare>, (&'static str, String)> {
        let Some(field) = &self.fair_by else {
            let reason = "has no effect without fair_by, the field that has the values, such as \"h.tenant\"";
            let is_useless = !self.fair_weights.is_empty();
            return if is_useless { Err(("fair_weights", reason.to_owned())) } else { Ok(None) };
        };
        let share = FairShare::new(field).map_err(|error| ("fair_by", error.to_string()))?;
        let weigh = |share: FairShare, (value, weight): (&String, &u32)| share.weight(value, *weight);
        let weighed = self.fair_weights.iter().try_fold(share, weigh);
        weighed.map(Some).map_err(|error| ("fair_weights", error.to_string()))
    }
}

/// Where dead letters go before retention drops them; see [`worker::DeadArchive`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct DeadSection {
    /// The folder. Without it, letters are dropped without a trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive: Option<PathBuf>,
    /// After how many bytes a new file begins.
    #[serde(with = "values::size")]
    pub rotate_size: u64,
    /// After how long a new file begins.
    #[serde(with = "duration")]
    pub rotate_after: Duration,
}

impl Default for DeadSection {
    fn default() -> Self {
        let worker::DeadArchive { rotate_size, rotate_after, .. } = worker::DeadArchive::new("");
        Self { archive: None, rotate_size, rotate_after }
    }
}

/// The settings of the event streams; see [`hooks::Config`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct EventsSection {
    /// Which events go to the stream `events` of each queue.
    pub publish: hooks::Publish,
    /// About how many events each stream keeps.
    #[serde(deserialize_with = "values::count")]
    pub max_length: u64,
    /// How often the lengths of queues are published.
    #[serde(with = "duration")]
    pub queue_length_every: Duration,
}

impl Default for EventsSection {
    fn default() -> Self {
        let hooks::Config { publish, max_length, queue_length_every, .. } = hooks::Config::default();
        Self { publish, max_length, queue_length_every }
    }
}

/// Which deaths of a type's jobs are incidents of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TypeAlert {
    /// Each one.
    Each,
}

/// What runs the jobs of one type, and the limits it sets them; see [`Policy`].
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TypeSection {
    /// What runs the jobs. Without it a worker refuses to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler: Option<handlers::Config>,
    /// Instead of a handler: the steps that make up the jobs.
    #[serde(with = "values::some_named", skip_serializing_if = "Option::is_none")]
    pub steps: Option<BTreeMap<StepName, StepSection>>,
    /// How long one attempt may run. For jobs made of steps, how long one step may run.
    #[serde(with = "duration")]
    pub timeout: Duration,
    /// After how many failures a job is buried.
    #[serde(deserialize_with = "values::count")]
    pub max_attempts: u32,
    /// After how many lost workers a job is buried.
    #[serde(deserialize_with = "values::count")]
    pub max_losses: u32,
    /// The pause before a retry.
    #[serde(with = "values::BackoffSection")]
    pub backoff: Backoff,
    /// The largest fraction of a pause that jitter adds or subtracts.
    #[serde(deserialize_with = "values::fraction")]
    pub jitter: f64,
    /// Which jobs leave a record; default: the queue's setting.
    #[serde(with = "values::optional_tracking", skip_serializing_if = "Option::is_none")]
    pub tracking: Option<Tracking>,
    /// The type of the job that follows each success of a job that names none itself.
    #[serde(with = "values::some_text", skip_serializing_if = "Option::is_none")]
    pub on_success: Option<JobType>,
    /// The type of the job that follows each death of a job that names none itself.
    #[serde(with = "values::some_text", skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<JobType>,
    /// What follows from errors, by the classes that the programs of a pool report; over the rules of the pool.
    #[serde(skip_serializing_if = "ErrorRules::is_empty")]
    pub errors: ErrorRules,
    /// Which deaths of its jobs are incidents of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alert: Option<TypeAlert>,
    /// How many attempts of the type may run at once in one process.
    #[serde(deserialize_with = "values::some_count", skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
    /// The field of a job that has its key, for `concurrency_per_key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_key: Option<String>,
    /// How many attempts of the type with the same key may run at once in one process.
    #[serde(deserialize_with = "values::some_count", skip_serializing_if = "Option::is_none")]
    pub concurrency_per_key: Option<usize>,
    /// What the gate of the type lets through at most in each queue, over the whole fleet.
    #[serde(skip_serializing_if = "LimitsSection::is_empty")]
    pub limits: LimitsSection,
    /// The file with the JSON Schema that payloads must fit; see `Effective::schemas`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_schema: Option<PathBuf>,
}

impl Default for TypeSection {
    fn default() -> Self {
        let Policy { timeout, max_attempts, max_losses, backoff, jitter, .. } = Policy::default();
        Self {
            handler: None,
            steps: None,
            timeout,
            max_attempts,
            max_losses,
            backoff,
            jitter,
            tracking: None,
            on_success: None,
            on_failure: None,
            errors: ErrorRules::default(),
            alert: None,
            concurrency: None,
            limit_key: None,
            concurrency_per_key: None,
            limits: LimitsSection::default(),
            payload_schema: None,
        }
    }
}

impl TypeSection {
    /// Returns the policy of this type's jobs.
    pub fn policy(&self) -> Policy {
        let Self { timeout, max_attempts, max_losses, backoff, jitter, tracking, .. } = self.clone();
        let policy = Policy::default().timeout(timeout).max_attempts(max_attempts).max_losses(max_losses);
        let policy = policy.backoff(backoff).jitter(jitter).tracking(tracking);
        let policy = policy.on_success(self.on_success.clone()).on_failure(self.on_failure.clone());
        let policy = policy.errors(self.errors.clone()).concurrency(self.concurrency);
        match (&self.limit_key, self.concurrency_per_key) {
            (Some(field), Some(concurrency)) => policy.concurrency_per_key(field, concurrency),
            // Checking the configuration refuses one without the other.
            (Some(_), None) | (None, Some(_) | None) => policy,
        }
    }

    /// Returns its handler, and those of its steps with their names.
    pub(super) fn handlers(&self) -> impl Iterator<Item = (Option<&StepName>, &handlers::Config)> {
        let own = self.handler.iter().map(|handler| (None, handler));
        let of_steps = self.steps.iter().flatten();
        own.chain(of_steps.filter_map(|(step, section)| Some((Some(step), section.handler.as_ref()?))))
    }
}

/// A recurring job; see [`crate::cron::Entry`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct CronSection {
    /// A cron expression.
    pub schedule: String,
    /// The time zone of the expression.
    #[serde(default = "utc")]
    pub timezone: String,
    /// The queue that the jobs go to.
    #[serde(
        default = "default_queue",
        deserialize_with = "values::text",
        serialize_with = "values::shown_text"
    )]
    pub queue: QueueName,
    /// The type of the jobs.
    #[serde(rename = "type", deserialize_with = "values::text", serialize_with = "values::shown_text")]
    pub job_type: JobType,
    /// Their payload: a string as it is, anything else as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<serde_json::Value>,
    /// How the payload is encoded.
    #[serde(default, with = "EncodingSection")]
    pub encoding: Encoding,
    /// Their lane.
    #[serde(default, deserialize_with = "values::text", serialize_with = "values::shown_text")]
    pub lane: Lane,
    /// What happens to missed ticks.
    #[serde(default, with = "MissedSection")]
    pub missed: Missed,
}

fn utc() -> String {
    "UTC".to_owned()
}

fn default_queue() -> QueueName {
    "default".parse().expect("default is a valid queue name")
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
