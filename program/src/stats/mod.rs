//! `streamfleet stats`: what happened in a queue lately, as charts show it: its samples, its types, or how long its jobs took.

mod by_type;
mod durations;
mod samples;
mod trend;

use std::time::Duration;

use streamfleet::Queue;
use streamfleet::job::QueueName;
use streamfleet_operations::stats::since;

pub(crate) use self::trend::drawn;
use super::exit::Exit;
use super::output::Repeat;
use super::{Context, history};

/// How `stats` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet stats mail
  streamfleet stats mail --since 24h
  streamfleet stats mail --types --since 10m
  streamfleet stats mail --durations --since 24h
  streamfleet stats mail -o json | jq '.items[] | [.at, .waiting, .done] | @csv'";

/// The arguments of `stats`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The queue.
    queue: QueueName,
    /// Show what the jobs of each type did: how they ended, and how long they waited and ran.
    #[arg(long)]
    types: bool,
    /// Show how long jobs waited and ran, over time: in each ten minutes, or in each hour of more than two hours.
    #[arg(long, conflicts_with = "types")]
    durations: bool,
    /// How far back to look, up to 24h.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = since)]
    since: Duration,
    #[command(flatten)]
    repeat: Repeat,
}

/// Shows the statistics of a queue.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let broker = context.broker().await?;
    let queue = broker.queue(args.queue);
    let look = async || {
        if args.types {
            by_type::list(&broker, &queue, args.since, context).await
        } else if args.durations {
            durations::list(&broker, &queue, args.since, context).await
        } else {
            samples::list(&broker, &queue, args.since, context).await
        }
    };
    args.repeat.run(context.output, look).await
}

/// Where the figures are of jobs that ended longer ago than these lists go back.
fn older(queue: &Queue, context: &Context) -> Option<String> {
    let more = format!("stats --queue {} --since 7d", queue.name());
    history::elsewhere("jobs that ended more than 24h ago", &more, context)
}

/// Returns how many a minute a count is that was made in this time. A sample may cover more than one minute.
fn per_minute(count: u64, time: Duration) -> f64 {
    let minutes = time.as_secs_f64() / 60.0;
    if minutes > 0.0 { count as f64 / minutes } else { 0.0 }
}
