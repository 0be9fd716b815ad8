//! `streamfleet status`: everything that is known about one job.

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::Queue;
use streamfleet::admin::{Attempt, LogLine, Progress, Status};
use streamfleet::job::{JobId, JobType, Lane, QueueName, State};

use super::exit::Exit;
use super::output::{self, Column, View, harmless};
use super::times::{Clock, rfc3339, short};
use super::{Context, results, steps, unserved, watch};

/// How many entries of each lane are searched for a job that nothing points to.
const MAX_SEARCHED: u64 = 10_000;

/// How `status` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet status 1700000000000-0
  streamfleet status order-7 --queue mail --watch";

/// The arguments of `status`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The job's id, or the entry id that XADD returned.
    id: JobId,
    /// The queue.
    #[arg(long, short, default_value = "default")]
    queue: QueueName,
    /// Watch the job until it ends, and print its changes. Exit code 0: it is done; 1: it is dead or cancelled.
    #[arg(long, short)]
    watch: bool,
}

/// How many of the last log lines are shown to people; JSON output has all that are kept.
const LOG_SHOWN: usize = 20;

/// A job, for JSON output.
#[derive(Serialize)]
pub(super) struct Report {
    id: String,
    queue: String,
    state: &'static str,
    #[serde(rename = "type")]
    job_type: String,
    lane: &'static str,
    created: Option<String>,
    created_ms: Option<u64>,
    due: Option<String>,
    due_ms: Option<u64>,
    entry: Option<String>,
    /// The gate that does not let it pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    gate: Option<String>,
    worker: Option<String>,
    progress: Option<ProgressReport>,
    attempts: Vec<AttemptReport>,
    log: Vec<LineReport>,
    result: Option<serde_json::Value>,
    error: Option<String>,
    cancelling_since: Option<String>,
    cancelled_by: Option<String>,
    dead_letter: Option<String>,
    /// The state of its steps, in words; absent if the job has no steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<String>,
    /// Says that no live worker knows its type; absent if one does, if it does not wait, or if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    unserved: Option<String>,
}

/// One attempt, for JSON output.
#[derive(Serialize)]
struct AttemptReport {
    started: String,
    started_ms: u64,
    ended: String,
    ended_ms: u64,
    duration_ms: u64,
    worker: String,
    outcome: String,
    error: Option<String>,
}

/// The progress of a job, for JSON output.
#[derive(Serialize)]
struct ProgressReport {
    percent: u8,
    note: String,
    at: String,
    at_ms: u64,
}

/// A line that a job logged, for JSON output.
#[derive(Serialize)]
struct LineReport {
    at: String,
    at_ms: u64,
    text: String,
}

/// Looks up the job.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let queue = context.broker().await?.queue(args.queue);
    let Some(status) = find(&queue, &args.id).await? else { return Ok(unknown(&queue, &args.id)) };
    if args.watch {
        return watch::run(&queue, status, context).await;
    }
    let steps = queue.steps().of(&status.id).await.context("failed to look up the steps")?;
    let steps = steps.as_ref().and_then(steps::summary);
    let report = Report { steps, unserved: remark_on_type(&queue, &status).await, ..report(&queue, &status) };
    let show = |report: &Report| {
        let view = show(&queue, &status, report.steps.clone(), &context.clock);
        match &report.unserved {
            Some(remark) => view.then(remark.clone()),
            None => view,
        }
    };
    context.output.print_named(&report, |report| vec![report.id.clone()], show)?;
    Ok(Exit::Done)
}

/// Returns a remark if the job waits and no live worker knows its type.
async fn remark_on_type(queue: &Queue, status: &Status) -> Option<String> {
    let waits = matches!(status.state, State::Waiting | State::Scheduled | State::Retrying);
    let job_type: JobType = status.job_type.parse().ok().filter(|_| waits)?;
    unserved::remark(queue, &job_type).await
}

/// Reports that a job is unknown.
pub(super) fn unknown(queue: &Queue, id: &JobId) -> Exit {
    output::print_stderr(&format!(
        "the queue {} has no record of the job {id}, and none of its newest {MAX_SEARCHED} entries has this id. A plain job that \
         succeeded leaves no record; enqueue it with --track or --id to keep one.",
        queue.name()
    ));
    Exit::NotFound
}

/// Finds a job's status. An entry id means the normal lane, but XADD returns such an id for the other lanes too, so they
/// are tried as well. A job that nothing points to is searched for among the newest entries.
pub(super) async fn find(queue: &Queue, id: &JobId) -> anyhow::Result<Option<Status>> {
    let mut candidates = vec![id.clone()];
    if let Some((entry, Lane::Normal)) = id.origin() {
        candidates.extend([Lane::High, Lane::Low].map(|lane| JobId::derived(entry, lane)));
    }
    for id in candidates {
        if let Some(status) = queue.status(&id).await.context("failed to look up the job")? {
            return Ok(Some(status));
        }
    }
    queue.seek(id, MAX_SEARCHED).await.context("failed to look up the job")
}

pub(super) fn report(queue: &Queue, status: &Status) -> Report {
    Report {
        id: status.id.to_string(),
        queue: queue.name().to_string(),
        state: status.state.as_str(),
        job_type: status.job_type.clone(),
        lane: status.lane.as_str(),
        created: status.created.map(rfc3339),
        created_ms: status.created.map(|time| time.as_ms()),
        due: status.due.map(rfc3339),
        due_ms: status.due.map(|time| time.as_ms()),
        entry: status.entry.map(|entry| entry.to_string()),
        gate: status.room.clone(),
        worker: status.worker.clone(),
        progress: status.progress.as_ref().map(progress),
        attempts: status.attempts.iter().map(attempt).collect(),
        log: status.log.iter().map(line).collect(),
        result: status.result.as_ref().map(|result| results::value(result.as_bytes())),
        error: status.error.clone(),
        cancelling_since: status.cancelling.map(rfc3339),
        cancelled_by: status.cancelled_by.clone(),
        dead_letter: status.dead.map(|entry| entry.to_string()),
        steps: None,
        unserved: None,
    }
}

fn progress(progress: &Progress) -> ProgressReport {
    let Progress { percent, note, at, .. } = progress.clone();
    ProgressReport { percent, note, at: rfc3339(at), at_ms: at.as_ms() }
}

fn line(line: &LogLine) -> LineReport {
    LineReport { at: rfc3339(line.at), at_ms: line.at.as_ms(), text: line.text.clone() }
}

fn attempt(attempt: &Attempt) -> AttemptReport {
    AttemptReport {
        started: rfc3339(attempt.started),
        started_ms: attempt.started.as_ms(),
        ended: rfc3339(attempt.ended),
        ended_ms: attempt.ended.as_ms(),
        duration_ms: u64::try_from(attempt.duration().as_millis()).unwrap_or(u64::MAX),
        worker: attempt.worker.clone(),
        outcome: attempt.outcome.clone(),
        error: Some(attempt.error.clone()).filter(|error| !error.is_empty()),
    }
}

/// Progress in a few words.
pub(super) fn progress_text(progress: &Progress) -> String {
    let gap = if progress.note.is_empty() { "" } else { " " };
    format!("{}%{gap}{}", progress.percent, harmless(&progress.note))
}

/// Shows a job to people. `steps` says in words how far its steps are.
pub(super) fn show(queue: &Queue, status: &Status, steps: Option<String>, clock: &Clock) -> View {
    let time = |time| clock.with_age(time, status.now);
    let facts = [
        ("job", Some(status.id.to_string())),
        ("queue", Some(queue.name().to_string())),
        ("type", Some(status.job_type.clone()).filter(|name| !name.is_empty())),
        ("lane", Some(status.lane.to_string())),
        ("state", Some(status.state.to_string())),
        ("created", status.created.map(time)),
        ("due", status.due.map(time)),
        (
            "waits for",
            status.room.as_ref().map(|gate| format!("the gate {gate}; see `streamfleet gates list`")),
        ),
        ("worker", status.worker.clone()),
        (
            "progress",
            status
                .progress
                .as_ref()
                .map(|progress| format!("{}, {}", progress_text(progress), time(progress.at))),
        ),
        ("entry", status.entry.map(|entry| entry.to_string())),
        ("cancelling", status.cancelling.map(|since| format!("requested {}", time(since)))),
        ("cancelled by", status.cancelled_by.clone()),
        ("result", status.result.as_deref().map(results::shown)),
        ("error", status.error.clone()),
        ("dead letter", status.dead.map(|entry| entry.to_string())),
        ("steps", steps),
    ];
    let mut view = output::facts(&facts);
    if !status.attempts.is_empty() {
        let mut table = output::table(&[
            Column::from("started"),
            Column::from("took"),
            Column::state("outcome"),
            Column::wide("worker"),
            Column::from("error"),
        ]);
        for attempt in &status.attempts {
            let [outcome, worker, error] =
                [&attempt.outcome, &attempt.worker, &attempt.error].map(|text| harmless(text));
            table.add_row([time(attempt.started), short(attempt.duration()), outcome, worker, error]);
        }
        view = view.then(table);
    }
    let shown = &status.log[status.log.len().saturating_sub(LOG_SHOWN)..];
    if !shown.is_empty() {
        let lines =
            shown.iter().map(|line| format!("\n  {} {}", clock.precise(line.at), harmless(&line.text)));
        view = view.then(format!(
            "log, the last {} of {} lines:{}",
            shown.len(),
            status.logged,
            lines.collect::<String>()
        ));
    }
    view
}
