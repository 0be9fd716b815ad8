//! The sections of the configuration that are not simply those of components.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::de::MapAccess;
use serde::{Deserialize, Deserializer, Serialize};

use super::console::ConsoleSection;
use super::database::{HistorySection, OutboxSection};
use super::joined::{self, Joined};
use super::steps::StepSection;
use crate::cron::Missed;
use crate::job::number::count;
use crate::job::written_limits::{self, WrittenLimits};
use crate::job::{CronName, Encoding, JobType, Lane, Limits, Policy, PoolName, QueueName, StepName};
use crate::telemetry::Objectives;
use crate::{alerts, broker, telemetry};
use streamfleet::producer::MAX_PAYLOAD_BYTES;
use streamfleet::{handlers, hooks, worker};

with_defaults! {
    /// The whole configuration.
    #[derive(Debug, Clone, Deserialize, Serialize)]
    #[serde(default, deny_unknown_fields)]
    #[non_exhaustive]
    pub struct Config {
        /// The connection to Redis.
        #[serde(serialize_with = "super::show::redis")]
        pub redis: broker::Config = broker::Config::default(),
        /// The worker's own settings. What it takes from other sections is only in [`Config::fleet_config`].
        pub worker: worker::Config = worker::Config::default(),
        /// The queues that a worker serves.
        pub queues: BTreeMap<QueueName, QueueSection> = BTreeMap::from([(default_queue(), QueueSection::default())]),
        /// The archive of dead letters.
        pub dead: worker::DeadArchive = worker::DeadArchive::default(),
        /// The pools of programs that types share.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub pools: BTreeMap<PoolName, handlers::PoolConfig> = BTreeMap::new(),
        /// The job types, and what runs them.
        pub types: BTreeMap<JobType, TypeSection> = BTreeMap::new(),
        /// Recurring jobs.
        pub cron: BTreeMap<CronName, CronSection> = BTreeMap::new(),
        /// The event streams.
        pub events: hooks::Config = hooks::Config::default(),
        /// Incidents, and messages about them. Without it, this process neither looks for incidents nor sends messages.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub alerts: Option<alerts::Config> = None,
        /// The history of jobs in a database. Without it, this process neither writes nor reads one.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub history: Option<HistorySection> = None,
        /// The outbox in a database. Without it, this process does not read one.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub outbox: Option<OutboxSection> = None,
        /// Logs, metrics and probes.
        pub telemetry: telemetry::Config = telemetry::Config::default(),
        /// The console.
        pub console: ConsoleSection = ConsoleSection::default(),
    }
}

/// The settings of one queue.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct QueueSection {
    /// How a worker serves it.
    #[serde(flatten)]
    pub served: worker::QueueConfig,
    /// The largest payload in bytes that `streamfleet enqueue` accepts.
    pub max_payload: usize,
    /// The queue's service objectives.
    pub objectives: Objectives,
}

impl Default for QueueSection {
    fn default() -> Self {
        let (served, objectives) = (worker::QueueConfig::default(), Objectives::default());
        Self { served, max_payload: MAX_PAYLOAD_BYTES, objectives }
    }
}

impl Joined for QueueSection {
    type Part = worker::QueueConfig;

    const OWN: &'static [&'static str] = &["max_payload", "objectives"];

    fn part(&mut self) -> &mut Self::Part {
        &mut self.served
    }

    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, table: &mut A) -> Result<(), A::Error> {
        #[derive(Deserialize)]
        struct Count(#[serde(deserialize_with = "count")] usize);

        match key {
            "max_payload" => self.max_payload = table.next_value::<Count>()?.0,
            _ => self.objectives = table.next_value()?,
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for QueueSection {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        joined::deserialize(from)
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

/// What runs the jobs of one type, and what it allows them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TypeSection {
    /// What runs the jobs. Without it a worker refuses to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler: Option<handlers::Config>,
    /// Instead of a handler: the steps that make up the jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<BTreeMap<StepName, StepSection>>,
    /// How many steps of one job may run at the same time, if they are ready; by default, one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrent_steps: Option<usize>,
    /// What the type allows its jobs, and the steps of its jobs.
    #[serde(flatten)]
    pub policy: Policy,
    /// Which deaths of its jobs are incidents of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alert: Option<TypeAlert>,
    /// What the gate of the type lets through at most in each queue, over the whole fleet.
    #[serde(with = "written_limits", skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    /// The file with the JSON Schema that payloads must fit; see `Effective::schemas`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_schema: Option<PathBuf>,
}

impl TypeSection {
    /// Returns its handler, and those of its steps with their names.
    pub(super) fn handlers(&self) -> impl Iterator<Item = (Option<&StepName>, &handlers::Config)> {
        let own = self.handler.iter().map(|handler| (None, handler));
        let of_steps = self.steps.iter().flatten();
        own.chain(of_steps.filter_map(|(step, section)| Some((Some(step), section.handler.as_ref()?))))
    }
}

impl Joined for TypeSection {
    type Part = Policy;

    const OWN: &'static [&'static str] =
        &["handler", "steps", "concurrent_steps", "alert", "limits", "payload_schema"];

    fn part(&mut self) -> &mut Self::Part {
        &mut self.policy
    }

    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, table: &mut A) -> Result<(), A::Error> {
        match key {
            "handler" => self.handler = Some(table.next_value()?),
            "steps" => self.steps = Some(table.next_value()?),
            "concurrent_steps" => self.concurrent_steps = Some(table.next_value()?),
            "alert" => self.alert = Some(table.next_value()?),
            "limits" => self.limits = table.next_value::<WrittenLimits>()?.0,
            _ => self.payload_schema = Some(table.next_value()?),
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for TypeSection {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        joined::deserialize(from)
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
    #[serde(default = "default_queue")]
    pub queue: QueueName,
    /// The type of the jobs.
    #[serde(rename = "type")]
    pub job_type: JobType,
    /// Their payload: a string as it is, anything else as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<serde_json::Value>,
    /// How the payload is encoded.
    #[serde(default)]
    pub encoding: Encoding,
    /// Their lane.
    #[serde(default)]
    pub lane: Lane,
    /// What happens to missed ticks.
    #[serde(default)]
    pub missed: Missed,
}

fn utc() -> String {
    "UTC".to_owned()
}

fn default_queue() -> QueueName {
    "default".parse().expect("default is a valid queue name")
}
