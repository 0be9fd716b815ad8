//! `streamfleet run-now`: makes jobs due that were to run later.

use streamfleet::Queue;
use streamfleet::job::{JobId, QueueName};
use streamfleet_operations::jobs::bulk::Change;
use streamfleet_operations::jobs::delayed;

use super::BulkArgs;
use crate::Context;
use crate::actor::ActorArgs;
use crate::delayed::print;
use crate::exit::Exit;

/// How `run-now` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet run-now order-7 --queue mail
  streamfleet run-now --queue mail --state retrying --error 'connection refused' --reason 'the relay is back'
  streamfleet run-now --queue mail --type mail.send --dry-run
  streamfleet run-now --queue mail --all --yes";

/// The ways to use `run-now`.
const USAGE: &str = "\
streamfleet run-now [OPTIONS] <ID>
       streamfleet run-now [OPTIONS] --all
       streamfleet run-now [OPTIONS] <FILTER>";

/// The arguments of `run-now`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
pub(crate) struct Args {
    /// The id of a delayed job or a retry. Without an id, a filter or --all selects the jobs.
    id: Option<JobId>,
    /// The queue.
    #[arg(long, short, default_value = "default")]
    queue: QueueName,
    #[command(flatten)]
    bulk: BulkArgs,
}

/// Makes the job due now, or all that the filter matches.
pub(crate) async fn run(Args { id, queue, bulk }: Args, context: &Context) -> anyhow::Result<Exit> {
    let one = async |queue: &Queue, id: &JobId| one(queue, id, &bulk.actor, context).await;
    super::one_or_many(Change::RunNow, (id, queue, &bulk), one, context).await
}

/// Makes one job due now, and prints when it is due.
pub(crate) async fn one(
    queue: &Queue,
    id: &JobId,
    actor: &ActorArgs,
    context: &Context,
) -> anyhow::Result<Exit> {
    let changed = match delayed::read(queue, id).await {
        Ok(job) => delayed::run_now(queue, &actor.actor(), &job).await,
        Err(error) => Err(error),
    };
    print(changed, context)
}
