//! Who does something to many jobs, and within which bounds.

use std::time::Duration;

/// Who does something to many jobs, and what is kept of them; see the [example](crate::BulkJobs).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BulkTerms {
    /// Who does it, for the records of the jobs.
    pub by: String,
    /// How long the records of cancelled jobs are kept. By default a day.
    pub retention: Duration,
    /// The most jobs that the queue may have to which jobs are moved. What the fleet of that queue has agreed on counts too, if
    /// it is lower. By default only that counts.
    pub max_depth: Option<u64>,
    /// How many jobs a task changes per second: at least one per hour, and at most 10,000. By default as many as it can. Without a
    /// task, it has no effect.
    pub rate: Option<f64>,
}

impl BulkTerms {
    /// Creates the terms of this person.
    pub fn new(by: impl Into<String>) -> Self {
        Self { by: by.into(), retention: Duration::from_secs(24 * 3600), max_depth: None, rate: None }
    }

    setters! {
        /// Sets how long the records of cancelled jobs are kept.
        retention: Duration;
        /// Sets the most jobs that the queue may have to which jobs are moved.
        max_depth: impl Into<Option<u64>> => max_depth.into();
        /// Sets how many jobs a task changes per second.
        rate: impl Into<Option<f64>> => rate.into();
    }
}
