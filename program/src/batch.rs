//! `streamfleet batch`: the progress of a batch, and what it is waiting for.

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::Queue;
use streamfleet::job::{BatchId, QueueName, Timestamp};
use streamfleet_engine::admin;

use super::Context;
use super::exit::Exit;
use super::output::{self, View};
use super::times::{Clock, rfc3339};

/// How `batch` is used.
const EXAMPLES: &str = "\
Example:
  streamfleet batch invoices-2026-11";

/// The arguments of `batch`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The name of the batch.
    name: BatchId,
    /// The queue.
    #[arg(long, short, default_value = "default")]
    queue: QueueName,
}

/// A batch, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Batch)]
pub(crate) struct Report {
    name: String,
    queue: String,
    state: String,
    members: u64,
    left: u64,
    created: String,
    #[serde(skip)]
    created_at: Timestamp,
    waiting_for: Vec<String>,
    awaited: Vec<Awaited>,
}

/// A member that the batch waits for: the job that stands for it, and the state of that job.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = AwaitedMember)]
struct Awaited {
    member: String,
    job: String,
    state: &'static str,
}

impl From<admin::Awaited> for Awaited {
    fn from(admin::Awaited { member, job, state }: admin::Awaited) -> Self {
        Self { member, job, state: state.map_or("unknown", |state| state.as_str()) }
    }
}

impl Awaited {
    fn line(&self) -> String {
        let Self { member, job, state } = self;
        if member == job {
            format!("{member} ({state})")
        } else {
            format!("{member} (replaced by {job}: {state})")
        }
    }
}

/// Looks up the batch.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let queue = context.broker().await?.queue(args.queue);
    let Some(report) = look_up(&queue, &args.name).await? else {
        output::print_stderr(&format!(
            "the queue {} has no batch {}; a batch is deleted 30 days after its last member was added",
            queue.name(),
            args.name
        ));
        return Ok(Exit::NotFound);
    };
    context.output.print_named(
        &report,
        |report| vec![report.name.clone()],
        |report| show(report, &context.clock),
    )?;
    Ok(Exit::Done)
}

/// Returns the progress of a batch; `None` if the queue does not have it.
pub(crate) async fn look_up(queue: &Queue, name: &BatchId) -> anyhow::Result<Option<Report>> {
    let found = queue.batch_status(name).await.context("failed to look up the batch")?;
    Ok(found.map(|batch| Report {
        name: name.to_string(),
        queue: queue.name().to_string(),
        state: batch.state,
        members: batch.size,
        left: batch.left,
        created: rfc3339(batch.created),
        created_at: batch.created,
        waiting_for: batch.waiting_for.iter().map(|awaited| awaited.member.clone()).collect(),
        awaited: batch.waiting_for.into_iter().map(Awaited::from).collect(),
    }))
}

fn show(report: &Report, clock: &Clock) -> View {
    let more = report.left.saturating_sub(report.waiting_for.len() as u64);
    let named: Vec<String> = report.awaited.iter().map(Awaited::line).collect();
    let named = named.join(", ");
    let awaited = if more > 0 { format!("{named} and {more} more") } else { named };
    output::facts(&[
        ("batch", Some(report.name.clone())),
        ("queue", Some(report.queue.clone())),
        ("state", Some(report.state.clone())),
        ("members", Some(report.members.to_string())),
        ("left", Some(report.left.to_string())),
        ("created", Some(clock.time(report.created_at))),
        ("waiting for", Some(awaited).filter(|awaited| !awaited.is_empty())),
    ])
}
