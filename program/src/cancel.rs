//! `streamfleet cancel`: cancels one job, wherever it is, or all jobs that a filter matches.

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::Queue;
use streamfleet::job::{JobId, QueueName, State};
use streamfleet_engine::admin::{BulkAction, Cancellation};

use super::actor::{self, ActorArgs};
use super::bulk::{self, BulkArgs, Order};
use super::exit::Exit;
use super::output::{self, harmless};
use super::{Context, Wrong, status};

/// The default of `--by`.
pub(super) const COMMAND_LINE: &str = "the command line";

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
    /// Who cancels the job, for its record and the audit.
    #[arg(long, default_value = COMMAND_LINE, visible_alias = "as")]
    by: String,
    #[command(flatten)]
    bulk: BulkArgs,
}

/// What became of the job, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Cancelled)]
pub(crate) struct Report {
    id: String,
    queue: String,
    /// The state of the job.
    state: &'static str,
    /// True if it is running and was asked to stop.
    pub(crate) cancelling: bool,
    /// The queue that has the job, if it was moved there. It goes on there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) moved_to: Option<String>,
    /// The state in which the job had ended before.
    #[serde(skip)]
    pub(crate) ended: Option<State>,
}

/// Cancels the job, or all that the filter matches.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let Args { id, queue, by, bulk } = args;
    let broker = tokio::select! {
        biased;
        () = context.shutdown.requested() => return Ok(Exit::Failed),
        broker = context.broker() => broker?,
    };
    let queue = broker.queue(queue);
    // Without a name, the audit has the user of this machine.
    let name = Some(by.clone()).filter(|by| by != COMMAND_LINE);
    let Some(id) = id else {
        let order = Order { action: BulkAction::Cancel, command: "cancel", args: &bulk, name };
        return bulk::run(order, &broker, &queue, context).await;
    };
    if !bulk.selects_nothing() {
        return Err(Wrong("an id works only without a filter, --all and --dry-run".to_owned()).into());
    }
    if let Some(why) = bulk.reason {
        actor::note(&queue, &ActorArgs::of(name, why).action("cancel").target(id.to_string()).count(1_u64))
            .await;
    }
    tokio::select! {
        biased;
        () = context.shutdown.requested() => Ok(Exit::Failed),
        exit = one(&queue, &id, &by, context) => exit,
    }
}

/// Cancels one job, and returns what became of it; `None` if the queue does not know it. Its record is kept for as long as
/// other records of this queue.
pub(crate) async fn cancel(
    queue: &Queue,
    id: &JobId,
    by: &str,
    context: &Context,
) -> anyhow::Result<Option<Report>> {
    const FAILED: &str = "failed to cancel the job";
    let retention = context.effective.config.fleet_config().worker.retention_of(queue.name());
    let mut id = id.clone();
    let mut cancellation = queue.cancel(&id, by, retention).await.context(FAILED)?;
    // The job may be in another lane than the entry id implies.
    if cancellation == Cancellation::Unknown
        && let Some(status) = status::find(queue, &id).await?
    {
        id = status.id;
        cancellation = queue.cancel(&id, by, retention).await.context(FAILED)?;
    }
    let (state, cancelling) = match cancellation {
        Cancellation::Done => (State::Cancelled, false),
        Cancellation::Requested => (State::Running, true),
        Cancellation::Ended(state) => (state, false),
        Cancellation::Unknown => return Ok(None),
    };
    let is_cancelled = cancellation == Cancellation::Ended(State::Cancelled);
    let moved_to = if is_cancelled { moved_to(queue, &id).await? } else { None };
    let ended = matches!(cancellation, Cancellation::Ended(State::Done | State::Dead)).then_some(state);
    Ok(Some(Report {
        id: id.to_string(),
        queue: queue.name().to_string(),
        state: state.as_str(),
        cancelling,
        moved_to,
        ended,
    }))
}

/// Cancels one job, and prints what became of it.
pub(super) async fn one(queue: &Queue, id: &JobId, by: &str, context: &Context) -> anyhow::Result<Exit> {
    let Some(report) = cancel(queue, id, by, context).await? else {
        return Ok(status::unknown(queue, id).await);
    };
    let id = report.id.clone();
    let ended_otherwise = report.ended.is_some() || report.moved_to.is_some();
    if context.output.is_json() || !ended_otherwise {
        context.output.print_named(&report, |report| vec![report.id.clone()], summary)?;
    }
    if let Some(to) = &report.moved_to {
        output::print_stderr(&format!(
            "{id} was moved to the queue {to}; nothing was changed. To cancel it: streamfleet cancel {id} --queue {to}"
        ));
        return Ok(Exit::Failed);
    }
    if ended_otherwise {
        output::print_stderr(&format!("{id} is already {}; nothing was changed", report.state));
        return Ok(Exit::Failed);
    }
    Ok(Exit::Done)
}

/// Returns the queue to which a job was moved: only its trace is cancelled.
async fn moved_to(queue: &Queue, id: &JobId) -> anyhow::Result<Option<String>> {
    let status = queue.status(id).await.context("failed to look up the job")?;
    let error = status.and_then(|status| status.error);
    Ok(error.and_then(|error| error.strip_prefix("moved to the queue ").map(str::to_owned)))
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
