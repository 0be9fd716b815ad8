//! `enqueue --wait`: submits one job and reports how it ended.

use std::time::Duration;

use serde::Serialize;
use streamfleet::job::{JobId, QueueName, State};
use streamfleet::{Ended, Producer, Submission, WaitError};
use streamfleet_operations::jobs::results;

use super::draft;
use crate::exit::Exit;
use crate::output::{self, Output, harmless};
use crate::times::short;
use crate::watch;

/// A job and how it ended, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = JobOutcome)]
pub(crate) struct Report {
    id: String,
    queue: String,
    /// The state of the job; null if it is not known.
    state: Option<&'static str>,
    result: Option<serde_json::Value>,
    error: Option<String>,
    /// True if the job existed already, with this id or this unique key; absent if that was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    existing: Option<bool>,
}

impl Report {
    /// A job that has ended.
    pub(crate) fn ended(ended: &Ended, queue: &QueueName) -> Self {
        Self {
            id: ended.job.to_string(),
            queue: queue.to_string(),
            state: Some(ended.state.as_str()),
            result: ended.result.as_ref().map(|result| results::value(result.as_bytes())),
            error: ended.error.clone(),
            existing: None,
        }
    }

    /// A job that has not ended yet, and its state, if that is known.
    pub(crate) fn unfinished(job: &JobId, state: Option<State>, queue: &QueueName) -> Self {
        let state = state.map(State::as_str);
        let (id, queue) = (job.to_string(), queue.to_string());
        Self { id, queue, state, result: None, error: None, existing: None }
    }

    /// Says whether the job existed already.
    pub(crate) fn existing(self, existing: bool) -> Self {
        Self { existing: Some(existing), ..self }
    }
}

/// Submits the job and waits for its end, at most for this long.
pub(super) async fn run(
    producer: &Producer,
    submission: Submission,
    (queue, longest): (&QueueName, Duration),
    output: Output,
) -> anyhow::Result<Exit> {
    match producer.submit_and_wait(submission, longest).await {
        Ok(ended) => print_end(&ended, queue, output),
        Err(WaitError::Submit(error)) => Err(draft::not_submitted(error)),
        Err(WaitError::TimedOut { job, state, waited }) => {
            let report = Report::unfinished(&job, state, queue);
            if output.is_json() {
                output.print(&report, |_| String::new())?;
            }
            let is = state.map_or("waiting", State::as_str);
            output::print_stderr(&format!(
                "{job} is still {is} after {} and continues; to wait for its end: streamfleet status {job} --queue {queue} --watch",
                short(waited)
            ));
            Ok(Exit::Unfinished)
        }
        Err(error) => Err(error.into()),
    }
}

fn print_end(ended: &Ended, queue: &QueueName, output: Output) -> anyhow::Result<Exit> {
    let report = Report::ended(ended, queue);
    if output.is_json() || ended.state == State::Done {
        let result = |_: &Report| ended.result.clone().unwrap_or_default();
        output.print_named(&report, |report| vec![report.id.clone()], result)?;
    }
    if ended.state != State::Done {
        let error = ended.error.as_deref().map(|error| format!(": {}", harmless(error))).unwrap_or_default();
        output::print_stderr(&format!("{} is {}{error}", ended.job, ended.state));
    }
    Ok(watch::exit_code(ended.state))
}
