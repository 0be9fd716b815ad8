//! Which queue of another system is taken over, and what its jobs become, as a mapping file says it.

use std::collections::BTreeMap;

use serde::Deserialize;
use streamfleet::job::{JobType, QueueName};

use super::system::System;

/// The most bytes of the name of another system's queue, or of a prefix.
const MAX_NAME: usize = 500;

/// A queue of another system: the keys of `[[list]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Fields")]
pub struct BacklogMapping {
    pub(super) fields: Fields,
    id: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fields {
    pub(super) system: System,
    pub(super) name: String,
    pub(super) prefix: Option<String>,
    id: Option<String>,
    queue: QueueName,
    #[serde(rename = "type")]
    job_type: Option<JobType>,
    #[serde(default)]
    types: BTreeMap<String, JobType>,
    #[serde(default)]
    pub(super) payload: PayloadForm,
    #[serde(default = "yes")]
    pub(super) dead: bool,
    #[serde(default)]
    pub(super) held: bool,
}

/// What becomes the payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PayloadForm {
    /// The arguments of the job, as JSON.
    #[default]
    Arguments,
    /// The whole message, as the other system wrote it.
    Message,
}

fn yes() -> bool {
    true
}

impl BacklogMapping {
    /// The other system, and the name of its queue there.
    pub fn source(&self) -> String {
        format!("{} {}", self.fields.system.name(), self.fields.name)
    }

    /// The beginning of the ids of its jobs, which no other list of the file has.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The queue that gets its jobs.
    pub fn queue(&self) -> &QueueName {
        &self.fields.queue
    }

    /// The type of a job that the other system names like this.
    pub(super) fn job_type(&self, named: Option<&str>) -> Result<JobType, String> {
        if let Some(job_type) = &self.fields.job_type {
            return Ok(job_type.clone());
        }
        let named = named.ok_or("it names no class or task: give the list a `type`")?;
        match self.fields.types.get(named) {
            Some(job_type) => Ok(job_type.clone()),
            None if self.fields.types.is_empty() => {
                named.parse().map_err(|error| format!("{error}; `types` gives it another name"))
            }
            None => Err(format!("`types` does not have {named:?}")),
        }
    }
}

impl TryFrom<Fields> for BacklogMapping {
    type Error = String;

    fn try_from(fields: Fields) -> Result<Self, String> {
        let named = |why: &str| format!("the list {:?}: {why}", fields.name);
        let prefix = fields.prefix.as_deref().unwrap_or_default();
        if fields.name.is_empty() || fields.name.len() > MAX_NAME || prefix.len() > MAX_NAME {
            return Err(named("`name` must have 1 to 500 bytes, and `prefix` at most 500"));
        }
        if fields.job_type.is_some() && !fields.types.is_empty() {
            return Err(named("`type` means all jobs: leave out `types`"));
        }
        if fields.id.as_deref().is_some_and(str::is_empty) {
            return Err(named("`id` is empty"));
        }
        let plain = || {
            let name = fields.name.chars().filter(|c| c.is_ascii_alphanumeric() || ".-_".contains(*c));
            format!("{}-{}", fields.system.name(), name.collect::<String>())
        };
        let id = fields.id.clone().unwrap_or_else(plain);
        Ok(Self { fields, id })
    }
}
