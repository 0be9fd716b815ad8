//! `streamfleet status`: everything that is known about one job.

use std::future::ready;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::{StreamExt, stream};
use streamfleet::job::{JobId, Parking, QueueName};
use streamfleet::{Broker, Queue};
use streamfleet_engine::admin::{Progress, Status};
use streamfleet_operations::jobs::{self, Input, Job, MAX_SEARCHED, find, known, results};
use streamfleet_operations::outlook::CauseReport;

use super::exit::Exit;
use super::input::input;
use super::output::{self, Column, View, harmless};
use super::times::{Clock, short};
use super::{Context, Wrong, history, watch};

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
    let Some(status) = status else {
        if history::has_shown(&queue, &args.id, context).await? {
            return Ok(Exit::Done);
        }
        return Err(jobs::unknown(&queue, &args.id).await.into());
    };
    if args.watch {
        return watch::run(&queue, status, context).await;
    }
    let configured: Vec<QueueName> = context.effective.config.queues.keys().cloned().collect();
    let fields = queue.fields(&status).await;
    let got = fields.map(|fields| fields.map(|fields| Input::of(&fields, args.full)));
    let job = jobs::status((&broker, &configured[..]), (&queue, &status), got).await?;
    if let Some(remark) = &job.remark {
        output::print_stderr(remark);
    }
    let show = |job: &Job| {
        let view = show(&queue, &status, job.steps.clone(), &context.clock);
        let obstacle = job.pool_down.as_ref().map(ToString::to_string);
        let of_queue = |cause: &CauseReport| format!("queue {}: {}", job.queue, harmless(&cause.text));
        let view = view.then(job.input.as_ref().map(input));
        view.then(job.unserved.clone().or(obstacle).or(job.queue_cause.as_ref().map(of_queue)))
    };
    context.output.print_named(&job, |job| vec![job.id.clone()], show)?;
    Ok(Exit::Done)
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
            Err(error) => {
                let why = anyhow::Error::from(error);
                output::print_stderr(&format!("in the queue {}: {why:#}", queue.name()));
            }
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
            status.waitlist.as_ref().map(|waitlist| match Parking::unknown_type(waitlist) {
                Some(job_type) => format!("a worker that knows the type {job_type}"),
                None if waitlist.starts_with("fair:") => {
                    "its turn: the queue is shared between the values of a field".to_owned()
                }
                None => format!("the gate {waitlist}; see `streamfleet gates list`"),
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
        view = view.then(output::table_of(
            &status.attempts,
            &[
                (Column::from("started"), &|attempt| time(attempt.started)),
                (Column::from("took"), &|attempt| short(attempt.duration())),
                (Column::state("outcome"), &|attempt| harmless(&attempt.outcome)),
                (Column::wide("worker"), &|attempt| harmless(&attempt.worker)),
                // An error keeps its line breaks.
                (Column::from("error"), &|attempt| attempt.error.clone()),
            ],
        ));
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
