//! `streamfleet queues delete`: deletes a queue with everything that Redis has of it.

use streamfleet::job::QueueName;
use streamfleet_operations::Control;
use streamfleet_operations::queues::{self, Delete, Deleted};

use super::report_unknown;
use crate::actor::{ActorArgs, told};
use crate::exit::Exit;
use crate::{Context, bulk, confirm, output};

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
    #[command(flatten)]
    actor: ActorArgs,
}

/// Deletes the queue.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let Some(broker) = bulk::connect(context).await? else { return Ok(Exit::Failed) };
    // Keys without any jobs may be left of a queue that is not listed.
    let queue = broker.queue(args.name.clone());
    let may_exist = args.force || queue.bulk().has_traces().await.unwrap_or(false);
    if !may_exist && report_unknown(&broker, &args.name, context).await {
        return Ok(Exit::NotFound);
    }
    let (actor, stop) = (args.actor.actor(), &context.shutdown);
    let quiet = Control { stop, progress: &|_| {} };
    let plan_only = Delete { dry_run: true, force: args.force, confirmed: None };
    let planned = queues::delete(&broker, &queue, &actor, plan_only, quiet).await?.value;
    if args.dry_run {
        context.output.print(&planned, plan)?;
        return Ok(Exit::Done);
    }
    if !args.force {
        planned.must_be_idle()?;
    }
    if args.confirm.is_none() {
        output::print_stderr(&plan(&planned));
    }
    confirm::queue_name(queue.name().as_str(), args.confirm.as_deref(), context).await?;
    let bar = output::progress(context.output, None, "keys deleted");
    let progress = |keys| bar.set_position(keys);
    // To confirm it may have taken an hour.
    let input = Delete { dry_run: false, confirmed: Some(planned.idle_jobs()), ..plan_only };
    let control = Control { stop, progress: &progress };
    let deleted = queues::delete(&broker, &queue, &actor, input, control).await;
    bar.finish_and_clear();
    let mut deleted = told(deleted?);
    if let Some(failure) = deleted.failure.take() {
        return Err(failure.into());
    }
    context.output.print(&deleted, show)?;
    Ok(if deleted.interrupted || deleted.in_use { Exit::Failed } else { Exit::Done })
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
