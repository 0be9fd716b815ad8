//! What would become of the rows of a table, and what has.

use std::collections::BTreeMap;
use std::io;

use serde::Serialize;
use streamfleet::job::JobType;
use streamfleet::{RedisError, SubmitError};
use streamfleet_sql::foreign::Key;

/// How many refused rows a report names.
const MAX_NAMED: usize = 20;

/// The most characters of the reason why a row is refused, which may quote what the row has.
const MAX_ERROR: usize = 500;

/// How many types a report counts.
const MAX_TYPES: usize = 100;

/// What became of the rows of a table, or would.
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct TableReport {
    /// The table.
    pub table: String,
    /// The queue that gets its jobs.
    pub queue: String,
    /// How many rows were looked at, also those that are no jobs.
    pub looked: u64,
    /// How many jobs were submitted, or would be.
    pub submitted: u64,
    /// How many dead letters were filed, or would be.
    pub filed: u64,
    /// How many jobs were there already: an earlier run had submitted or filed them.
    pub existing: u64,
    /// How many rows cannot be jobs.
    pub refused: u64,
    /// The first of them.
    pub refused_rows: Vec<Refusal>,
    /// How many jobs each type has; of the first 100 types.
    pub types: BTreeMap<String, u64>,
    /// Of a plan: how many elements each key of another system has.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub keys: BTreeMap<String, u64>,
    /// Of a plan: what keeps the jobs from running.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// Of a plan: whether there may be rows that it did not look at.
    pub more: bool,
    /// True if it was stopped before the last row.
    pub interrupted: bool,
    /// What ended it early.
    #[serde(skip)]
    pub failure: Option<Failure>,
}

/// A row that cannot be a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Refusal {
    /// The table.
    pub table: String,
    /// The key of the row.
    pub key: String,
    /// Why.
    pub error: String,
}

/// Why an import ended before the last row. What was submitted or filed until then stays.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The database does not answer, or refuses.
    #[error("the table cannot be read")]
    Database(#[source] streamfleet_sql::Error),
    /// The queue has had no room for 10 minutes, or Redis does not accept the jobs.
    #[error("the jobs were not submitted")]
    Submission(#[source] SubmitError),
    /// Redis does not answer, or does not accept the dead letters.
    #[error("Redis did not do its part")]
    Redis(#[source] RedisError),
    /// The Redis of the other system does not answer, or refuses.
    #[error("the old Redis did not do its part")]
    Foreign(#[source] RedisError),
    /// The progress or a refused row cannot be written.
    #[error("cannot write what became of the rows")]
    Watch(#[source] io::Error),
}

impl TableReport {
    /// How many rows became jobs or dead letters.
    pub fn done(&self) -> u64 {
        self.submitted + self.filed
    }

    /// How many rows were sent, also those that were there already.
    pub(super) fn sent(&self) -> u64 {
        self.done() + self.existing
    }

    /// Counts a row that is a job of this type.
    pub(super) fn count(&mut self, job_type: JobType) {
        let has_room = self.types.len() < MAX_TYPES || self.types.contains_key(job_type.as_str());
        if has_room {
            *self.types.entry(job_type.to_string()).or_default() += 1;
        }
    }

    /// Counts a row that cannot be a job, and returns it.
    pub(super) fn refuse(&mut self, key: &Key, error: String) -> Refusal {
        self.refused += 1;
        let error = error.chars().take(MAX_ERROR).collect();
        let refusal = Refusal { table: self.table.clone(), key: key.to_string(), error };
        if self.refused_rows.len() < MAX_NAMED {
            self.refused_rows.push(refusal.clone());
        }
        refusal
    }
}
