//! `streamfleet cancel`: cancels one job, wherever it is, or all jobs that a filter matches.

use std::time::Duration;

use streamfleet::Queue;
use streamfleet::job::{JobId, QueueName};
use streamfleet_operations::jobs::bulk::Change;
use streamfleet_operations::jobs::{self, CancelOutcome, Cancelled};
use streamfleet_service::config::Effective;

use super::Context;
use super::actor::{ActorArgs, told};
use super::bulk::{self, BulkArgs};
use super::exit::Exit;
use super::output::{self, harmless};

/// How `cancel` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet cancel order-7
  streamfleet cancel 1700000000000-0 --queue mail --by ann
  streamfleet cancel --queue mail --where payload.customer=9 --reason 'the customer has left'
  streamfleet cancel --queue mail --type 'report.*' --state waiting,scheduled --dry-run";

/// The ways to use `cancel`.
const USAGE: &str = "\
streamfleet cancel [OPTIONS] <ID>
       streamfleet cancel [OPTIONS] --all
       streamfleet cancel [OPTIONS] <FILTER>";

/// The arguments of `cancel`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
pub(crate) struct Args {
    /// The job's id, or the entry id that XADD returned. Without an id, a filter or --all selects the jobs.
    id: Option<JobId>,
    /// The queue.
    #[arg(long, short, default_value = "default")]
    queue: QueueName,
    #[command(flatten)]
    bulk: BulkArgs,
}

/// Cancels the job, or all that the filter matches.
pub(crate) async fn run(Args { id, queue, bulk }: Args, context: &Context) -> anyhow::Result<Exit> {
    let one = async |queue: &Queue, id: &JobId| one(queue, id, &bulk.actor, context).await;
    bulk::one_or_many(Change::Cancel, (id, queue, &bulk), one, context).await
}

/// How long the record of a cancelled job of this queue is kept: as long as its other records.
pub(crate) fn retention(queue: &QueueName, effective: &Effective) -> Duration {
    effective.config.fleet_config().worker.retention_of(queue)
}

/// Cancels one job, and prints what became of it.
pub(super) async fn one(
    queue: &Queue,
    id: &JobId,
    actor: &ActorArgs,
    context: &Context,
) -> anyhow::Result<Exit> {
    let retention = retention(queue.name(), &context.effective);
    let cancelled = told(jobs::cancel(queue, &actor.actor(), id, retention).await?);
    let Cancelled { id, state, outcome, .. } = &cancelled;
    let refusal = match outcome {
        CancelOutcome::Done | CancelOutcome::Requested | CancelOutcome::Repeated => None,
        CancelOutcome::Ended(_) => Some(format!("{id} is already {state}; nothing was changed")),
        CancelOutcome::Moved(to) => Some(format!(
            "{id} was moved to the queue {to}; nothing was changed. To cancel it: streamfleet cancel {id} --queue {to}"
        )),
    };
    if context.output.is_json() || refusal.is_none() {
        context.output.print_named(&cancelled, |job| vec![job.id.clone()], summary)?;
    }
    let Some(refusal) = refusal else { return Ok(Exit::Done) };
    output::print_stderr(&refusal);
    Ok(Exit::Failed)
}

fn summary(cancelled: &Cancelled) -> String {
    let (id, queue) = (harmless(&cancelled.id), &cancelled.queue);
    if cancelled.cancelling {
        return format!(
            "{id} is running and was asked to stop; to see how it ends: streamfleet status {id} --queue {queue} --watch"
        );
    }
    format!("{id} is cancelled")
}
