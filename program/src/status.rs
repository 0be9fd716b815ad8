//! `streamfleet status`: everything that is known about one job.

use std::future::ready;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::{StreamExt, stream};
use serde::Serialize;
use streamfleet::job::{Envelope, JobId, JobType, Lane, Parking, QueueName, State};
use streamfleet::{Broker, Queue};
use streamfleet_engine::admin::{Attempt, LogLine, Progress, Status};
use streamfleet_service::config::Effective;

use super::exit::Exit;
use super::output::{self, Column, View, harmless};
use super::payload::Input;
use super::queues::{CauseReport, outlook};
use super::times::{Clock, rfc3339, short};
use super::unserved::{self, PoolReport};
use super::{Context, Wrong, results, steps, watch};

/// How many entries of each lane are searched for a job that nothing points to.
const MAX_SEARCHED: u64 = 10_000;

/// How many bytes of entries a search of all queues reads, roughly.
const MAX_SEARCHED_BYTES: u64 = 256 * 1024 * 1024;

/// The queue that is looked at first.
const USUAL_QUEUE: &str = "default";

/// How many other queues are looked at together.
const QUEUES_AT_ONCE: usize = 8;

/// How long the other configured queues are looked through for a job that was found.
const LONGEST_ASIDE: Duration = Duration::from_secs(1);

/// How `status` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet status 1700000000000-0
  streamfleet status order-7 --queue mail --watch
  streamfleet status order-7 --full -o json";

/// The arguments of `status`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The job's id, or the entry id that XADD returned.
    id: JobId,
    /// The queue. Default: the queue `default`, and then every other queue of the namespace.
    #[arg(long, short)]
    queue: Option<QueueName>,
    /// Show the whole payload, however large it is.
    #[arg(long)]
    full: bool,
    /// Watch the job until it ends, and print its changes. Exit code 0: it is done; 1: it is dead or cancelled.
    #[arg(long, short)]
    watch: bool,
}

/// How many of the last log lines are shown to people; JSON output has all that are kept.
const LOG_SHOWN: usize = 20;

/// A job, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Job)]
pub(crate) struct Report {
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
    /// The jobs that followed its last end; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<String>,
    /// The state of its steps, in words; absent if the job has no steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<String>,
    /// Says that no live worker knows its type, or serves its queue; absent if one does, if it does not wait, or if that is not
    /// known.
    #[serde(skip_serializing_if = "Option::is_none")]
    unserved: Option<String>,
    /// The pool that cannot run it, because its programs cannot start; absent if there is none, or if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pool_down: Option<PoolReport>,
    /// The worst cause for which the jobs of its queue wait; absent if there is none, if the job does not wait, or if that is not
    /// known.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_cause: Option<CauseReport>,
    /// What it got; absent if its fields are gone.
    #[serde(flatten)]
    input: Option<Input>,
}

/// One attempt, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Attempt)]
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
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Progress)]
struct ProgressReport {
    percent: u8,
    note: String,
    at: String,
    at_ms: u64,
}

/// A line that a job logged, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = LogLine)]
struct LineReport {
    at: String,
    at_ms: u64,
    text: String,
}

/// Looks up the job.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let broker = context.broker().await?;
    let (queue, status) = match args.queue {
        Some(name) => {
            let queue = broker.queue(name);
            let status = find(&queue, &args.id).await?;
            (queue, status)
        }
        None => find_anywhere(&broker, &args.id, context).await?,
    };
    let Some(status) = status else { return Ok(unknown(&queue, &args.id).await) };
    if args.watch {
        return watch::run(&queue, status, context).await;
    }
    let (report, remark) = gather((&broker, &context.effective), (&queue, &status), |_| args.full).await?;
    if let Some(remark) = remark {
        output::print_stderr(&remark);
    }
    let show = |report: &Report| {
        let view = show(&queue, &status, report.steps.clone(), &context.clock);
        let obstacle = report.pool_down.as_ref().map(ToString::to_string);
        let of_queue = |cause: &CauseReport| format!("queue {}: {}", report.queue, harmless(&cause.text));
        let view = view.then(report.input.as_ref().map(Input::view));
        view.then(report.unserved.clone().or(obstacle).or(report.queue_cause.as_ref().map(of_queue)))
    };
    context.output.print_named(&report, |report| vec![report.id.clone()], show)?;
    Ok(Exit::Done)
}

/// Adds to a job's status its steps, and what it got; `is_full` says of its fields whether a large payload is added too. The remark
/// says why the payload is missing, if it cannot be read.
pub(crate) async fn gather(
    (broker, effective): (&Broker, &Effective),
    (queue, status): (&Queue, &Status),
    is_full: impl FnOnce(&Envelope) -> bool,
) -> anyhow::Result<(Report, Option<String>)> {
    let steps = queue.steps().of(&status.id).await.context("failed to look up the steps")?;
    let steps = steps.as_ref().and_then(steps::summary);
    let (fields, remark) = match queue.fields(status).await {
        Ok(fields) => (fields, None),
        Err(error) => (None, Some(format!("the job's payload cannot be read: {}", queue.with_keys(&error)))),
    };
    let input = fields.map(|fields| Input::of(&fields, is_full(&fields)));
    let Obstacles { unserved, pool_down, queue_cause } = obstacles((broker, effective), queue, status).await;
    Ok((Report { steps, unserved, pool_down, queue_cause, input, ..report(queue, status) }, remark))
}

/// Finds a job in the queue `default`, or else in any other queue. Without the right to list queues, it looks in the
/// former only. Entries are searched only if no queue knows the job.
async fn find_anywhere(
    broker: &Broker,
    id: &JobId,
    context: &Context,
) -> anyhow::Result<(Queue, Option<Status>)> {
    let usual = broker.queue(USUAL_QUEUE.parse::<QueueName>().context("the usual queue has no valid name")?);
    if let Some(status) = known(&usual, id).await? {
        // To list the queues, all keys would have to be scanned.
        let names = context.effective.config.queues.keys().filter(|name| *name != usual.name());
        let others = names.map(|name| broker.queue(name.clone())).collect();
        let others = tokio::time::timeout(LONGEST_ASIDE, having(others, id)).await;
        if let Some(others) = others.ok().filter(|others| !others.is_empty()) {
            let names = output::listed(&others);
            output::print_stderr(&format!("other queues have a job {id}, too; see it with --queue: {names}"));
        }
        return Ok((usual, Some(status)));
    }
    let mut others = Vec::new();
    if let Ok(listed) = broker.queues().await {
        listed.missing.iter().for_each(|missing| output::print_stderr(&missing.to_string()));
        let names = listed.found.into_iter().filter(|name| name != usual.name());
        others.extend(names.map(|name| broker.queue(name)));
    }
    let mut found = known_in(&others, id).await;
    if found.is_empty() {
        let mut bytes = MAX_SEARCHED_BYTES;
        let sought = usual.seek_within(id, MAX_SEARCHED, &mut bytes).await;
        if let Some(status) = sought.context("failed to look up the job")? {
            return Ok((usual, Some(status)));
        }
        found = sought_in(&others, id, bytes).await;
    }
    if found.is_empty() && !others.is_empty() {
        let others = others.len();
        output::print_stderr(&format!("none of the other {others} queues is known to have the job {id}"));
    }
    if found.len() > 1 {
        let names = output::listed(found.iter().map(|(queue, _)| queue.name()));
        return Err(Wrong(format!("several queues have a job {id}; choose one with --queue: {names}")).into());
    }
    Ok(found.pop().map_or((usual, None), |(queue, status)| (queue, Some(status))))
}

/// Names those of these queues that know a job of this id, as far as they can be read: ids that Redis chooses differ only within
/// a queue.
async fn having(queues: Vec<Queue>, id: &JobId) -> Vec<QueueName> {
    let looking = stream::iter(queues).map(|queue| async move {
        let status = known(&queue, id).await.ok().flatten();
        status.map(|_| queue.name().clone())
    });
    looking.buffered(QUEUES_AT_ONCE).filter_map(ready).collect().await
}

/// Returns which of these queues know the job. A queue that cannot be read does not hide the others.
async fn known_in(queues: &[Queue], id: &JobId) -> Vec<(Queue, Status)> {
    let looking = stream::iter(queues.to_vec()).map(|queue| async move {
        let status = known(&queue, id).await;
        (queue, status)
    });
    let looked: Vec<_> = looking.buffered(QUEUES_AT_ONCE).collect().await;
    let mut found = Vec::new();
    for (queue, status) in looked {
        match status {
            Ok(status) => found.extend(status.map(|status| (queue, status))),
            Err(error) => output::print_stderr(&format!("in the queue {}: {error:#}", queue.name())),
        }
    }
    found
}

/// Searches the entries of these queues, one after the other, until `bytes` of them have been read.
async fn sought_in(queues: &[Queue], id: &JobId, mut bytes: u64) -> Vec<(Queue, Status)> {
    let mut found = Vec::new();
    for queue in queues {
        match queue.seek_within(id, MAX_SEARCHED, &mut bytes).await {
            Ok(status) => found.extend(status.map(|status| (queue.clone(), status))),
            Err(error) => {
                let why = queue.with_keys(&error);
                output::print_stderr(&format!(
                    "in the queue {}: failed to look up the job: {why}",
                    queue.name()
                ));
            }
        }
    }
    if bytes == 0 {
        let mib = MAX_SEARCHED_BYTES >> 20;
        output::print_stderr(&format!(
            "the search ended after {mib} MiB; choose a queue with --queue to go on"
        ));
    }
    found
}

/// What keeps a job from running.
#[derive(Default)]
struct Obstacles {
    unserved: Option<String>,
    pool_down: Option<PoolReport>,
    queue_cause: Option<CauseReport>,
}

/// Returns what keeps the job from running: no live worker knows its type, or serves its queue, no program of its pool can start, or
/// the queue has a backlog.
async fn obstacles((broker, effective): (&Broker, &Effective), queue: &Queue, status: &Status) -> Obstacles {
    let mut obstacles = Obstacles::default();
    let Ok(job_type) = status.job_type.parse::<JobType>() else { return obstacles };
    if matches!(status.state, State::Waiting | State::Scheduled | State::Retrying) {
        let remarks = unserved::remarks_on_wait((broker, effective), queue, [&job_type]).await;
        obstacles.unserved = remarks.into_iter().next_back();
    }
    let has_ended = matches!(status.state, State::Done | State::Dead | State::Cancelled);
    if !has_ended && obstacles.unserved.is_none() {
        obstacles.pool_down = unserved::pool_down(queue, &job_type).await;
    }
    if status.state == State::Waiting
        && let Ok(snapshot) = queue.snapshot().await
    {
        obstacles.queue_cause = outlook(queue, &snapshot).await.1;
    }
    obstacles
}

/// Reports that a job is unknown. If it is the id of a dead letter, names the job.
pub(super) async fn unknown(queue: &Queue, id: &JobId) -> Exit {
    let letter = match id.origin() {
        Some((entry, Lane::Normal)) => queue.dead_letters().get(entry).await.ok().flatten(),
        Some((_, Lane::High | Lane::Low)) | None => None,
    };
    if let Some(letter) = letter {
        let job = letter.job();
        output::print_stderr(&format!(
            "{id} is the id of a dead letter of the queue {}; its job is {job}",
            queue.name()
        ));
        return Exit::NotFound;
    }
    output::print_stderr(&format!(
        "the queue {} has no record of the job {id}, and none of its newest {MAX_SEARCHED} entries has this id. A plain job that \
         succeeded leaves no record; enqueue it with --track or --id to keep one.",
        queue.name()
    ));
    Exit::NotFound
}

/// Finds a job's status. A job that nothing points to is searched for among the newest entries.
pub(crate) async fn find(queue: &Queue, id: &JobId) -> anyhow::Result<Option<Status>> {
    match known(queue, id).await? {
        Some(status) => Ok(Some(status)),
        None => queue.seek(id, MAX_SEARCHED).await.context("failed to look up the job"),
    }
}

/// Returns the status of a job that something points to. An entry id means the normal lane, but XADD returns such an id for
/// the other lanes too, so they are tried as well.
pub(crate) async fn known(queue: &Queue, id: &JobId) -> anyhow::Result<Option<Status>> {
    let mut candidates = vec![id.clone()];
    if let Some((entry, Lane::Normal)) = id.origin() {
        candidates.extend([Lane::High, Lane::Low].map(|lane| JobId::derived(entry, lane)));
    }
    for id in candidates {
        if let Some(status) = queue.status(&id).await.context("failed to look up the job")? {
            return Ok(Some(status));
        }
    }
    Ok(None)
}

pub(crate) fn report(queue: &Queue, status: &Status) -> Report {
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
        children: status.children.iter().map(ToString::to_string).collect(),
        steps: None,
        unserved: None,
        pool_down: None,
        queue_cause: None,
        input: None,
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
            status.room.as_ref().map(|room| match Parking::unknown_type(room) {
                Some(job_type) => format!("a worker that knows the type {job_type}"),
                None if room.starts_with("fair:") => {
                    "its turn: the queue is shared between the values of a field".to_owned()
                }
                None => format!("the gate {room}; see `streamfleet gates list`"),
            }),
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
        ("followed by", Some(output::listed(&status.children)).filter(|_| !status.children.is_empty())),
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
            let [outcome, worker] = [&attempt.outcome, &attempt.worker].map(|text| harmless(text));
            // An error keeps its line breaks.
            let error = attempt.error.clone();
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
