//! Jobs line by line, while they are looked for: what a search has found so far is never lost, and how far it is stays known.

use std::time::Duration;

use axum::response::Response;
use serde::Serialize;
use serde_json::Value;
use streamfleet_operations::jobs::search::{Facts, Row, Search, Walk, next_rows};
use tokio::time::Instant;

use super::lines::{self, write};
use super::work_limits::{Held, Work};
use super::{Call, Problem};

/// The most jobs of an answer, unless the request says fewer.
pub(super) const MOST: u64 = 100_000;

/// How often there is a line about the progress, at least.
const EVERY: Duration = Duration::from_millis(250);

/// A line of the answer. It has one of these.
#[derive(Default, Serialize, utoipa::ToSchema)]
pub(super) struct JobLine {
    /// A job that matches, as in a page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Row>)]
    job: Option<Value>,
    /// How far the search is.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<JobProgress>,
    /// What went wrong. No line follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
}

impl From<Problem> for JobLine {
    fn from(problem: Problem) -> Self {
        Self { problem: Some(problem), ..Self::default() }
    }
}

/// How far the search is.
#[derive(Serialize, utoipa::ToSchema)]
struct JobProgress {
    /// How many jobs it has found.
    found: u64,
    /// What to send as `after` to go on; null if it has looked at everything.
    next: Option<String>,
    #[serde(flatten)]
    facts: Facts,
}

/// A search that a client reads.
struct Reading {
    call: Call,
    walk: Walk,
    /// How many jobs may still be found.
    left: u64,
    found: u64,
    until: Instant,
    _place: Held,
}

/// Looks for jobs, and answers with those that it finds.
///
/// # Errors
///
/// [`Problem`] if too many searches run, or Redis does not answer.
pub(super) async fn answer(call: Call, search: &Search) -> Result<Response, Problem> {
    let place = call.app.work_limits.begin(Work::Search)?;
    let walk = search.walk(&call.app.broker, search.names.clone()).await?;
    let until = Instant::now() + lines::LONGEST;
    let left = search.limit;
    Ok(lines::answer(Reading { call, walk, left, found: 0, until, _place: place }))
}

impl lines::Reading for Reading {
    type Line = JobLine;

    /// Looks at jobs until some match or it is time to say how far the search is.
    async fn look(&mut self, text: &mut Vec<u8>) -> Result<bool, Problem> {
        let begun = Instant::now();
        let mut is_over = false;
        while text.is_empty() && !is_over && begun.elapsed() < EVERY {
            let most = usize::try_from(self.left).unwrap_or(usize::MAX);
            let page = next_rows(&mut self.walk, most).await?;
            let rows = page.unwrap_or_default();
            for row in &rows {
                write(text, &JobLine { job: Some(self.call.value(row)?), ..JobLine::default() });
            }
            self.found += rows.len() as u64;
            self.left = self.left.saturating_sub(rows.len() as u64);
            is_over = self.is_over();
        }
        let mut facts = self.walk.facts().await;
        facts.interrupted = is_over && self.left > 0 && self.walk.next().is_some();
        let next = self.walk.next().map(ToString::to_string);
        let progress = Some(JobProgress { found: self.found, next, facts });
        write(text, &JobLine { progress, ..JobLine::default() });
        Ok(is_over)
    }
}

impl Reading {
    /// Whether the answer ends: nothing is left to look at, enough was found, or the time is up.
    fn is_over(&self) -> bool {
        let is_late = Instant::now() >= self.until || self.call.app.stopping.is_requested();
        self.walk.next().is_none() || self.left == 0 || is_late
    }
}
