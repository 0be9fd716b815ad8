//! `streamfleet queues delete`: deletes a queue with everything that Redis has of it.

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::job::QueueName;
use streamfleet::{Broker, Queue};
use streamfleet_engine::admin::{Action, KeyCursor, QueueUse};

use crate::actor::ActorArgs;
use crate::exit::Exit;
use crate::{Context, confirm, output, queues};

/// How often the keys are looked through. Only a queue that is in use has new ones each time.
const MAX_ROUNDS: u32 = 5;

/// How `queues delete` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet queues delete old
  streamfleet queues delete old --dry-run
  streamfleet queues delete old --confirm old --reason 'its service is gone'";

/// The arguments of `queues delete`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The queue.
    name: QueueName,
    /// Delete it even if live workers serve it, jobs run, or it gets new jobs meanwhile. These jobs are lost, and workers and
    /// producers create some keys again.
    #[arg(long)]
    force: bool,
    /// The name of the queue again, so that the command does not ask for it.
    #[arg(long, value_name = "NAME")]
    confirm: Option<String>,
    /// Show what would be deleted, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Who does this, for the notes that `audit --deletions` shows. Default: the user of this machine.
    #[arg(long = "as", value_name = "WHO", visible_alias = "by")]
    actor: Option<String>,
    /// Why it is done, for these notes.
    #[arg(long, value_name = "TEXT", visible_alias = "why")]
    reason: Option<String>,
}

/// What became of the queue, for JSON output.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
#[schema(as = QueueDeleted)]
pub(crate) struct Deleted {
    queue: String,
    dry_run: bool,
    /// The live workers that serve it.
    workers: Vec<String>,
    running: u64,
    waiting: u64,
    delayed: u64,
    dead: u64,
    /// How many keys were deleted.
    keys: u64,
    /// True if keys were made again while it was deleted.
    in_use: bool,
    interrupted: bool,
}

/// Deletes the queue.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let broker = tokio::select! {
        biased;
        () = context.shutdown.requested() => return Ok(Exit::Failed),
        broker = context.broker() => broker?,
    };
    // Keys without any jobs may be left of a queue that is not listed.
    let queue = broker.queue(args.name.clone());
    let may_exist = args.force || queue.bulk().has_traces().await.unwrap_or(false);
    if !may_exist && queues::report_unknown(&broker, &args.name, context).await {
        return Ok(Exit::NotFound);
    }
    let users = broker.use_of(&queue).await.context("failed to ask who uses the queue")?;
    if !args.dry_run {
        must_be_idle(&args, &users)?;
    }
    let mut deleted = Deleted::plan(&queue, &users, args.dry_run).await?;
    if args.dry_run {
        context.output.print(&deleted, plan)?;
        return Ok(Exit::Done);
    }
    if args.confirm.is_none() {
        output::print_stderr(&plan(&deleted));
    }
    confirm::queue_name(queue.name().as_str(), args.confirm.as_deref(), context).await?;
    must_be_unchanged(&args, (&broker, &queue), &deleted).await?;
    let why = args.reason.clone().unwrap_or_default();
    let action = ActorArgs::of(args.actor.clone(), why).action("queues delete");
    delete(&action, (&broker, &queue), context, &mut deleted).await?;
    context.output.print(&deleted, show)?;
    Ok(if deleted.interrupted || deleted.in_use { Exit::Failed } else { Exit::Done })
}

impl Deleted {
    /// Counts what would be deleted.
    pub(crate) async fn plan(queue: &Queue, users: &QueueUse, dry_run: bool) -> anyhow::Result<Self> {
        let snapshot = queue.snapshot().await.context("failed to count the jobs")?;
        Ok(Self {
            queue: queue.name().to_string(),
            dry_run,
            workers: users.workers.clone(),
            running: users.running,
            waiting: snapshot.waiting(),
            delayed: snapshot.delayed,
            dead: snapshot.dead,
            ..Self::default()
        })
    }
}

/// Deletes the keys, and notes it outside of the queue: once before, and once with the outcome.
pub(crate) async fn delete(
    action: &Action,
    (broker, queue): (&Broker, &Queue),
    context: &Context,
    deleted: &mut Deleted,
) -> anyhow::Result<()> {
    let action = action.clone().target(queue.name().as_str());
    let jobs = deleted.waiting + deleted.delayed + deleted.dead + deleted.running;
    let (action, log) = (action.count(jobs), broker.deletions());
    if let Err(error) = log.note(&action).await {
        output::print_stderr(&format!("not noted in the audit: {error}"));
    }
    let result = delete_keys(queue, context, deleted).await.context("failed to delete the keys");
    let outcome = match (&result, deleted.interrupted) {
        (Err(_), _) => "ended early",
        (Ok(()), true) => "interrupted",
        (Ok(()), false) => "done",
    };
    if let Err(error) = log.note(&action.outcome(outcome)).await {
        output::print_stderr(&format!("not noted in the audit: {error}"));
    }
    result
}

/// Looks through all keys until none of the queue is left.
async fn delete_keys(queue: &Queue, context: &Context, deleted: &mut Deleted) -> anyhow::Result<()> {
    let bar = output::progress(context.output, None, "keys deleted");
    for _ in 0..MAX_ROUNDS {
        let (before, mut next) = (deleted.keys, Some(KeyCursor::default()));
        while let Some(from) = next {
            if context.shutdown.is_requested() {
                deleted.interrupted = true;
                bar.finish_and_clear();
                return Ok(());
            }
            let page = queue.bulk().delete_page(&from).await?;
            deleted.keys += page.deleted;
            bar.set_position(deleted.keys);
            next = page.next;
        }
        if deleted.keys == before {
            bar.finish_and_clear();
            return Ok(());
        }
    }
    bar.finish_and_clear();
    deleted.in_use = true;
    Ok(())
}

/// Refuses to delete a queue that somebody uses, unless that was asked for.
fn must_be_idle(args: &Args, users: &QueueUse) -> anyhow::Result<()> {
    if users.is_idle() || args.force {
        return Ok(());
    }
    let why = in_use(users);
    anyhow::bail!("the queue {} is in use: {why}; stop its workers first, or add --force", args.name)
}

/// Refuses to delete more than the person saw who confirmed it: that may have taken an hour.
async fn must_be_unchanged(
    args: &Args,
    (broker, queue): (&Broker, &Queue),
    shown: &Deleted,
) -> anyhow::Result<()> {
    if args.force {
        return Ok(());
    }
    must_be_idle(args, &broker.use_of(queue).await.context("failed to ask who uses the queue")?)?;
    let now = queue.snapshot().await.context("failed to count the jobs")?;
    let (before, after) =
        (shown.waiting + shown.delayed + shown.dead, now.waiting() + now.delayed + now.dead);
    if after <= before {
        return Ok(());
    }
    let more = after - before;
    anyhow::bail!(
        "the queue {} has {more} more jobs and dead letters than before the confirmation: stop its producers first, or add --force",
        args.name
    )
}

/// Says who uses a queue.
pub(crate) fn in_use(users: &QueueUse) -> String {
    let workers = match &users.workers[..] {
        [] => "no live worker serves it".to_owned(),
        workers => format!("live workers serve it ({})", output::listed(workers)),
    };
    format!("{workers}, {} jobs run", users.running)
}

/// Shows what is about to happen.
fn plan(deleted: &Deleted) -> String {
    let Deleted { queue, waiting, delayed, dead, running, workers, .. } = deleted;
    let mut lines = vec![format!(
        "the queue {queue} would be deleted, with {waiting} waiting, {running} running and {delayed} delayed jobs, {dead} dead \
         letters, and all records, recurring jobs, gates and notes"
    )];
    if !workers.is_empty() {
        lines.push(format!("live workers serve it: {}", output::listed(workers)));
    }
    lines.join("\n")
}

/// Shows what became of the queue.
fn show(deleted: &Deleted) -> String {
    let Deleted { queue, keys, .. } = deleted;
    if deleted.interrupted {
        return format!("interrupted after {keys} keys; to continue, give the same command again");
    }
    if deleted.in_use {
        return format!("{keys} keys of the queue {queue} are deleted, but new ones appear: it is in use");
    }
    format!("the queue {queue} is deleted: {keys} keys")
}
