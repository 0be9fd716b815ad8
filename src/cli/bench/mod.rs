//! `bench`: what streamfleet costs, beside the same work as raw commands, on a private server, in one run. Absolute
//! figures say more about the machine than about the program; the ratios are what counts.

mod fleet;
mod measure;
mod raw;
mod report;

use clap::Args as ClapArgs;
use indicatif::{ProgressBar, ProgressStyle};

use super::Context;
use super::exit::Exit;
use report::Report;

/// The type of the jobs that are measured.
const TYPE: &str = "bench.noop";

/// The queue that is measured.
const QUEUE: &str = "default";

/// Measure enqueue, drain, latency, promotion, memory, retry and backlog against raw Redis.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// How many jobs are enqueued and drained.
    #[arg(long, default_value_t = 200_000)]
    jobs: usize,
    /// How often enqueue and drain are measured; the medians are reported.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Leave out the measurement with millions of waiting and delayed jobs.
    #[arg(long)]
    no_backlog: bool,
}

/// Runs the measurements and prints them.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let steps = if args.no_backlog { 6 } else { 7 };
    let progress = ProgressBar::new(steps);
    progress.set_style(ProgressStyle::with_template("{spinner} {msg} ({pos} of {len}, {elapsed})")?);
    let mut bench = measure::Bench::start(args.jobs, args.rounds.max(1)).await?;
    let mut step = |what: &'static str| {
        progress.set_message(what);
        progress.inc(1);
        progress.tick();
    };
    step("enqueue");
    let enqueue = bench.enqueue().await?;
    step("drain");
    let drain = bench.drain().await?;
    step("latency");
    let latency_ms = bench.latency().await?;
    step("promotion");
    let promotion = bench.promotion().await?;
    step("memory");
    let memory = bench.memory().await?;
    step("retry");
    let retry = bench.retry().await?;
    let backlog = if args.no_backlog {
        None
    } else {
        step("backlog");
        Some(bench.backlog().await?)
    };
    progress.finish_and_clear();
    let report = Report { enqueue, drain, latency_ms, promotion, memory, retry, backlog };
    context.output.print(&report, Report::table)?;
    Ok(Exit::Done)
}
