//! `bench`: compares streamfleet with the same work done by raw commands, on a private server, in one run. Absolute
//! figures say more about the machine than about the program; the ratios are what counts.

mod fleet;
mod measure;
mod raw;
mod report;

use clap::{Args as ClapArgs, ValueEnum};
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
    /// How many times enqueue and drain are measured; the medians are reported.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Measure only these.
    #[arg(long, value_delimiter = ',', value_enum)]
    only: Vec<Subject>,
}

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Subject {
    Enqueue,
    Drain,
    Latency,
    Promotion,
    Memory,
    Retry,
    Backlog,
}

/// The number of threads of the measured process: all cores except one, which is left to Redis.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().saturating_sub(1).max(1))
}

/// Runs the measurements and prints them.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let subjects = if args.only.is_empty() { Subject::value_variants().to_vec() } else { args.only };
    let progress = ProgressBar::new(subjects.len() as u64);
    progress.set_style(ProgressStyle::with_template(
        "{spinner} measuring {msg} ({pos} of {len} done, {elapsed})",
    )?);
    let mut bench = measure::Bench::start(args.jobs, args.rounds.max(1)).await?;
    let mut report = Report { server: bench.server().await?, ..Report::default() };
    for subject in subjects {
        progress.set_message(format!("{subject:?}").to_lowercase());
        progress.tick();
        match subject {
            Subject::Enqueue => report.enqueue = Some(bench.enqueue().await?),
            Subject::Drain => report.drain = Some(bench.drain().await?),
            Subject::Latency => report.latency_ms = Some(bench.latency().await?),
            Subject::Promotion => report.promotion = Some(bench.promotion().await?),
            Subject::Memory => report.memory = Some(bench.memory().await?),
            Subject::Retry => report.retry = Some(bench.retry().await?),
            Subject::Backlog => report.backlog = Some(bench.backlog().await?),
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    context.output.print(&report, Report::table)?;
    Ok(Exit::Done)
}
