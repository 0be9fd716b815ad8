//! `enqueue --wait`: waits for one job, and reports how it ended.

use std::io::{IsTerminal as _, stderr};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::job::State;
use streamfleet::{Ended, RedisError, WaitError};
use streamfleet_operations::jobs::results;
use streamfleet_operations::submit::{Receipt, Target};
use streamfleet_service::Signals;

use crate::exit::Exit;
use crate::output::{self, Output};
use crate::times::short;
use crate::watch;

/// How often a wait says that Redis still does not answer.
const SILENT_EVERY: Duration = Duration::from_secs(10);

/// A job and how it ended, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = JobOutcome)]
pub(crate) struct WaitReport {
    /// The id of the job.
    id: String,
    /// The queue.
    queue: String,
    /// The state of the job; null if it is not known.
    state: Option<&'static str>,
    /// The result; null if there is none, or if it is too large to be kept.
    result: Option<serde_json::Value>,
    /// The last error; null if there is none.
    error: Option<String>,
    /// True if the job existed already, with this id or this unique key.
    existing: bool,
}

impl WaitReport {
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

/// Waits for the end of a job that was submitted, at most for this long. However the wait ends, it names the job.
pub(super) async fn run(
    target: &Target,
    receipt: &Receipt,
    longest: Duration,
    output: Output,
) -> anyhow::Result<Exit> {
    let job = &receipt.submitted.id;
    let interrupt = Signals::shutdown().context("failed to watch for signals")?;
    if stderr().is_terminal() {
        output::print_stderr(&format!("{job} is submitted; waiting for its end"));
    }
    let mut told: Option<Instant> = None;
    let silence = |error: &RedisError| {
        if told.is_none_or(|at| at.elapsed() >= SILENT_EVERY) {
            told = Some(Instant::now());
            output::print_stderr(&format!(
                "redis does not answer, so the state of {job} is unknown; waiting for redis ({error})"
            ));
        }
    };
    let ended = tokio::select! {
        biased;
        ended = target.producer.wait_telling(job, longest, silence) => ended,
        () = interrupt.requested() => return unfinished(receipt, None, &format!("{job} is submitted"), output),
    };
    match ended {
        Ok(ended) => print_end(&ended, receipt, output),
        Err(WaitError::TimedOut { job, state, waited }) => {
            let is = state.map_or("waiting", State::as_str);
            unfinished(receipt, state, &format!("{job} is still {is} after {}", short(waited)), output)
        }
        Err(error) => {
            if output.is_json() {
                output.print(&WaitReport::unfinished(receipt, None), |_| String::new())?;
            }
            Err(error.into())
        }
    }
}

/// Says how to go on waiting.
fn unfinished(receipt: &Receipt, state: Option<State>, what: &str, output: Output) -> anyhow::Result<Exit> {
    if output.is_json() {
        output.print(&WaitReport::unfinished(receipt, state), |_| String::new())?;
    }
    let (job, queue) = (&receipt.id, &receipt.queue);
    output::print_stderr(&format!(
        "{what} and continues; to wait for its end: streamfleet status {job} --queue {queue} --watch"
    ));
    Ok(Exit::Unfinished)
}

fn print_end(ended: &Ended, receipt: &Receipt, output: Output) -> anyhow::Result<Exit> {
    let report = WaitReport::ended(ended, receipt);
    if output.is_json() || ended.state == State::Done {
        let result = |_: &WaitReport| ended.result.clone().unwrap_or_default();
        output.print_named(&report, |report| vec![report.id.clone()], result)?;
    }
    if ended.state != State::Done {
        let error = ended.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
        output::print_stderr(&format!("{} is {}{error}", ended.job, ended.state));
    }
    Ok(watch::exit_code(ended.state))
}
