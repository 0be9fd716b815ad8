//! The Rust handlers: one that writes a month's report, and two that misbehave as real handlers do.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use streamfleet::{Handler, JobContext, JobError};

use super::report;
use super::table::{Measure, Table};

/// What the handlers share.
#[derive(Clone)]
pub(super) struct Desk {
    pub(super) table: Arc<Table>,
    pub(super) folder: PathBuf,
    /// Extra time that a report takes, so that there is something to see.
    pub(super) pace: Duration,
}

/// The month of the table that a job is about.
#[derive(Debug, Deserialize)]
pub(super) struct Month {
    year: u16,
    month: u8,
}

/// The payload of `report.month`.
#[derive(Debug, Deserialize)]
pub(super) struct MonthOf {
    year: u16,
    month: u8,
    measure: Measure,
}

/// What is kept in a job's record.
#[derive(Debug, Serialize)]
pub(super) struct Written {
    report: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean: Option<f64>,
}

/// `report.month`: the averages of a month. A month that the table does not have is fatal: a retry would not help.
pub(super) struct Averages(pub(super) Desk);

/// `report.flaky`: the extremes of a month. The first two attempts fail with a full disk.
pub(super) struct Flaky(pub(super) Desk);

/// `report.hang`: waits forever; its timeout ends it.
pub(super) struct Hang;

impl Handler for Averages {
    type Payload = MonthOf;
    type Output = Written;

    async fn run(&self, of: MonthOf, context: JobContext) -> Result<Written, JobError> {
        let MonthOf { year, month, measure } = of;
        let days = self.0.table.month(year, month);
        let Some((text, summary)) = report::month(&days, measure) else { return Err(no_days(year, month)) };
        let report = format!("reports/month/{year}-{month:02}-{}.md", measure.as_str());
        self.0.write(report, text, Some(summary.mean), &context).await
    }
}

impl Handler for Flaky {
    type Payload = Month;
    type Output = Written;

    async fn run(&self, of: Month, context: JobContext) -> Result<Written, JobError> {
        if context.attempt() <= 2 {
            return Err(JobError::retry("the disk is full"));
        }
        let Month { year, month } = of;
        let text = report::extremes(&self.0.table.month(year, month)).ok_or_else(|| no_days(year, month))?;
        self.0.write(format!("reports/extremes/{year}-{month:02}.md"), text, None, &context).await
    }
}

impl Handler for Hang {
    type Payload = Month;
    type Output = ();

    async fn run(&self, _: Month, _: JobContext) -> Result<(), JobError> {
        std::future::pending().await
    }
}

impl Desk {
    async fn write(
        &self,
        report: String,
        text: String,
        mean: Option<f64>,
        context: &JobContext,
    ) -> Result<Written, JobError> {
        tokio::time::sleep(self.pace).await;
        let (folder, name, attempt) = (self.folder.clone(), report.clone(), context.fence().to_string());
        tokio::task::spawn_blocking(move || report::write(&folder, &name, &attempt, &text)).await??;
        Ok(Written { report, mean })
    }
}

fn no_days(year: u16, month: u8) -> JobError {
    JobError::fatal(format!("the table has no days in {year}-{month:02}"))
}
