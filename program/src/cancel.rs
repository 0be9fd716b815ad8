//! `streamfleet cancel`: cancels one job, wherever it is.

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::Queue;
use streamfleet::admin::Cancellation;
use streamfleet::job::{JobId, QueueName, State};

use super::exit::Exit;
use super::output::{self, harmless};
use super::{Context, status};

/// The default of `--by`.
pub(super) const COMMAND_LINE: &str = "the command line";

/// How `cancel` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet cancel order-7
  streamfleet cancel 1700000000000-0 --queue mail --by ann";

/// The arguments of `cancel`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The job's id, or the entry id that XADD returned.
    id: JobId,
    /// The queue.
    #[arg(long, short, default_value = "default")]
    queue: QueueName,
    /// Who cancels the job, for its record.
    #[arg(long, default_value = COMMAND_LINE)]
    by: String,
}

/// What became of the job, for JSON output.
#[derive(Serialize)]
struct Report {
    id: String,
    queue: String,
    /// The state of the job.
    state: &'static str,
    /// True if it is running and was asked to stop.
    cancelling: bool,
}

/// Cancels the job.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let queue = context.broker().await?.queue(args.queue);
    one(&queue, &args.id, &args.by, context).await
}

/// Cancels one job. Its record is kept for as long as other records of this queue.
pub(super) async fn one(queue: &Queue, id: &JobId, by: &str, context: &Context) -> anyhow::Result<Exit> {
    let retention = context.effective.config.fleet_config().worker.retention_of(queue.name());
    let cancel = async |id: &JobId| queue.cancel(id, by, retention).await.context("failed to cancel the job");
    let (mut id, mut cancellation) = (id.clone(), cancel(id).await?);
    // The job may be in another lane than the entry id implies.
    if cancellation == Cancellation::Unknown
        && let Some(status) = status::find(queue, &id).await?
    {
        id = status.id;
        cancellation = cancel(&id).await?;
    }
    let (state, cancelling) = match cancellation {
        Cancellation::Done => (State::Cancelled, false),
        Cancellation::Requested => (State::Running, true),
        Cancellation::Ended(state) => (state, false),
        Cancellation::Unknown => return Ok(status::unknown(queue, &id)),
    };
    let report =
        Report { id: id.to_string(), queue: queue.name().to_string(), state: state.as_str(), cancelling };
    let ended_otherwise = matches!(cancellation, Cancellation::Ended(State::Done | State::Dead));
    if context.output.is_json() || !ended_otherwise {
        context.output.print_named(&report, |report| vec![report.id.clone()], summary)?;
    }
    if ended_otherwise {
        output::print_stderr(&format!("{id} is already {state}; nothing was changed"));
        return Ok(Exit::Failed);
    }
    Ok(Exit::Done)
}

fn summary(report: &Report) -> String {
    let (id, queue) = (harmless(&report.id), &report.queue);
    if report.cancelling {
        return format!(
            "{id} is running and was asked to stop; to see how it ends: streamfleet status {id} --queue {queue} --watch"
        );
    }
    format!("{id} is cancelled")
}
