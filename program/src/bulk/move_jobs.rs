//! `streamfleet move`: moves jobs that wait or are due later to another queue.

use streamfleet::job::QueueName;
use streamfleet_operations::jobs::bulk::Change;

use super::BulkArgs;
use crate::Context;
use crate::exit::Exit;

/// How `move` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet move --queue mail --to bulk --where payload.campaign=9 --reason 'it delays the others'
  streamfleet move --queue mail --to bulk --type 'report.*' --dry-run
  streamfleet move --queue old --to new --all --yes";

/// The ways to use `move`.
const USAGE: &str = "\
streamfleet move [OPTIONS] --to <QUEUE> --all
       streamfleet move [OPTIONS] --to <QUEUE> <FILTER>";

/// The arguments of `move`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
pub(crate) struct Args {
    /// The queue that has the jobs.
    #[arg(long, short, default_value = "default")]
    queue: QueueName,
    /// The queue that gets them, in the same namespace. In a cluster, it must be in the same slot.
    #[arg(long, value_name = "QUEUE")]
    to: QueueName,
    /// With --yes, move jobs also to a queue that has no jobs and that no worker has ever joined.
    #[arg(long)]
    unserved: bool,
    #[command(flatten)]
    bulk: BulkArgs,
}

/// Moves the jobs.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let Args { queue, to, unserved, bulk } = args;
    let Some(broker) = super::connect(context).await? else { return Ok(Exit::Failed) };
    // Somebody who is asked agrees to the remarks of the plan.
    let change = Change::Move { to: broker.queue(to), is_sure: unserved || !bulk.yes };
    super::run(change, &bulk, (&broker, &broker.queue(queue)), context).await
}
