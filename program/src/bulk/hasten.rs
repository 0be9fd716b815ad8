//! `streamfleet run-now`: makes jobs due that were to run later.

use streamfleet::job::QueueName;
use streamfleet_engine::admin::BulkAction;

use super::{BulkArgs, Order};
use crate::Context;
use crate::exit::Exit;

/// How `run-now` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet run-now --queue mail --state retrying --error 'connection refused' --reason 'the relay is back'
  streamfleet run-now --queue mail --type mail.send --dry-run
  streamfleet run-now --queue mail --all --yes";

/// The ways to use `run-now`.
const USAGE: &str = "\
streamfleet run-now [OPTIONS] --all
       streamfleet run-now [OPTIONS] <FILTER>";

/// The arguments of `run-now`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
pub(crate) struct Args {
    /// The queue.
    #[arg(long, short, default_value = "default")]
    queue: QueueName,
    /// Who does this, for the audit. Default: the user of this machine, such as ann@ops-1.
    #[arg(long = "as", value_name = "NAME", visible_alias = "by")]
    name: Option<String>,
    #[command(flatten)]
    bulk: BulkArgs,
}

/// Makes the jobs due now.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let Args { queue, name, bulk } = args;
    let broker = tokio::select! {
        biased;
        () = context.shutdown.requested() => return Ok(Exit::Failed),
        broker = context.broker() => broker?,
    };
    let queue = broker.queue(queue);
    let order = Order { action: BulkAction::RunNow, command: "run-now", args: &bulk, name };
    super::run(order, &broker, &queue, context).await
}
