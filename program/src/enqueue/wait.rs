//! `enqueue --wait`: waits for one job, and reports how it ended.

use std::time::Duration;

use serde::Serialize;
use streamfleet::job::State;
use streamfleet::{Ended, WaitError};
use streamfleet_operations::jobs::results;
use streamfleet_operations::submit::{Receipt, Target};

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
    /// True if the job existed already, with this id or this unique key.
    existing: bool,
}

impl Report {
    /// A job that has ended.
    pub(crate) fn ended(ended: &Ended, receipt: &Receipt) -> Self {
        Self {
            state: Some(ended.state.as_str()),
            result: ended.result.as_ref().map(|result| results::value(result.as_bytes())),
            error: ended.error.clone(),
            ..Self::unfinished(receipt, None)
        }
    }

    /// A job that has not ended yet, and its state, if that is known.
    pub(crate) fn unfinished(receipt: &Receipt, state: Option<State>) -> Self {
        let (id, queue, existing) = (receipt.id.clone(), receipt.queue.clone(), receipt.existing);
        Self { id, queue, state: state.map(State::as_str), result: None, error: None, existing }
    }
}

/// Waits for the end of a job that was submitted, at most for this long.
pub(super) async fn run(
    target: &Target,
    receipt: &Receipt,
    longest: Duration,
    output: Output,
) -> anyhow::Result<Exit> {
    match target.producer.wait(&receipt.submitted.id, longest).await {
        Ok(ended) => print_end(&ended, receipt, output),
        Err(WaitError::TimedOut { job, state, waited }) => {
            if output.is_json() {
                output.print(&Report::unfinished(receipt, state), |_| String::new())?;
            }
            let is = state.map_or("waiting", State::as_str);
            output::print_stderr(&format!(
                "{job} is still {is} after {} and continues; to wait for its end: streamfleet status {job} --queue {} --watch",
                short(waited),
                receipt.queue
            ));
            Ok(Exit::Unfinished)
        }
        Err(error) => Err(error.into()),
    }
}

fn print_end(ended: &Ended, receipt: &Receipt, output: Output) -> anyhow::Result<Exit> {
    let report = Report::ended(ended, receipt);
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
