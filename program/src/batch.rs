//! `streamfleet batch`: the progress of a batch, and what it is waiting for.

use streamfleet::job::{BatchId, QueueName};
use streamfleet_operations::jobs::{AwaitedMember, Batch, batch};

use super::Context;
use super::exit::Exit;
use super::output::{self, View};
use super::times::Clock;

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

/// Looks up the batch.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let batch = batch(&context.broker().await?.queue(args.queue), &args.name).await?;
    let names = |batch: &Batch| vec![batch.name.clone()];
    context.output.print_named(&batch, names, |batch| show(batch, &context.clock))?;
    Ok(Exit::Done)
}

fn line(AwaitedMember { member, job, state, .. }: &AwaitedMember) -> String {
    if member == job {
        format!("{member} ({state})")
    } else {
        format!("{member} (replaced by {job}: {state})")
    }
}

fn show(batch: &Batch, clock: &Clock) -> View {
    let more = batch.left.saturating_sub(batch.waiting_for.len() as u64);
    let named: Vec<String> = batch.awaited.iter().map(line).collect();
    let named = named.join(", ");
    let awaited = if more > 0 { format!("{named} and {more} more") } else { named };
    output::facts(&[
        ("batch", Some(batch.name.clone())),
        ("queue", Some(batch.queue.clone())),
        ("state", Some(batch.state.clone())),
        ("members", Some(batch.members.to_string())),
        ("left", Some(batch.left.to_string())),
        ("created", Some(clock.time(batch.created_at))),
        ("waiting for", Some(awaited).filter(|awaited| !awaited.is_empty())),
    ])
}
