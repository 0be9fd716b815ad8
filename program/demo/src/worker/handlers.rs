//! The Rust handlers: one that writes a month's report, and two that misbehave as real handlers do.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use streamfleet::{Handler, JobContext, JobError};

use super::report;
use super::table::{Measure, Table};

/// The payload of all jobs: what the report is about.
#[derive(Debug, Deserialize)]
pub(super) struct Month {
    year: u16,
    month: u8,
    measure: Measure,
}

/// What is kept in a job's record.
#[derive(Debug, Serialize)]
pub(super) struct Written {
    report: String,
    mean: f64,
}

/// `report.month`: the averages of a month. A month that the table does not have is fatal: a retry would not help.
#[derive(Clone)]
pub(super) struct Averages {
    pub(super) table: Arc<Table>,
    /// Where the reports go.
    pub(super) folder: &'static str,
    /// Extra time that a report takes, so that there is something to see.
    pub(super) pace: Duration,
}

/// `report.flaky`: the same, but the first two attempts fail with a full disk.
pub(super) struct Flaky(pub(super) Averages);

/// `report.hang`: waits forever; its timeout ends it.
pub(super) struct Hang;

impl Handler for Averages {
    type Payload = Month;
    type Output = Written;

    async fn run(&self, of: Month, context: JobContext) -> Result<Written, JobError> {
        let Month { year, month, measure } = of;
        let no_days = || JobError::fatal(format!("the table has no days in {year}-{month:02}"));
        let (text, mean) = report::month(&self.table.month(year, month), measure).ok_or_else(no_days)?;
        tokio::time::sleep(self.pace).await;
        let report = format!("{}/{year}-{month:02}-{}.md", self.folder, measure.as_str());
        let (name, attempt) = (report.clone(), context.fence().to_string());
        tokio::task::spawn_blocking(move || report::write(&name, &attempt, &text)).await??;
        Ok(Written { report, mean })
    }
}

impl Handler for Flaky {
    type Payload = Month;
    type Output = Written;

    async fn run(&self, of: Month, context: JobContext) -> Result<Written, JobError> {
        if context.attempt() <= 2 {
            return Err(JobError::retry("the disk is full"));
        }
        self.0.run(of, context).await
    }
}

impl Handler for Hang {
    type Payload = Month;
    type Output = ();

    async fn run(&self, _: Month, _: JobContext) -> Result<(), JobError> {
        std::future::pending().await
    }
}
