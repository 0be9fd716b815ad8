//! The command line. Each command is one file with its arguments and a `run`.

mod batch;
mod bench;
mod cancel;
mod check;
mod config;
mod cron;
mod dead;
mod delayed;
#[cfg(feature = "http")]
mod demo;
mod dev;
mod enqueue;
mod events;
mod exit;
mod healthcheck;
mod metrics;
mod output;
mod queues;
mod serve;
mod signals;
mod status;
mod steps;
mod systemd;
mod times;
mod watch;
mod worker;
mod workers;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use exit::Exit;
use output::Output;
use signals::{Early, Watch};
use streamfleet::Shutdown;
use streamfleet::broker::Broker;
use streamfleet::config::{Effective, Flags, Sources};

/// What scripts may rely on.
const EXIT_CODES: &str = "\
Exit codes:
  0  it did what was asked; a worker was stopped and has given its jobs back
  1  something went wrong that has no code of its own
  2  the command line or the configuration is wrong
  3  Redis cannot be reached, or refuses
  4  what was asked for does not exist
  5  a check found errors
  6  the time to wait was up before the job had ended; it goes on
  7  the queue takes no more jobs for now; nothing was submitted
  8  the job is accepted, but not confirmed to be as durable as was asked for

Configuration: files, then variables such as STREAMFLEET__REDIS__URL, then flags; see `streamfleet config show`.";

/// Background jobs on Redis Streams, run by a fleet of identical workers.
#[derive(Parser)]
#[command(version, propagate_version = true, max_term_width = 110, after_help = EXIT_CODES)]
struct Cli {
    /// Configuration files (TOML); later ones win. Default: streamfleet.toml in this folder, if there is one.
    #[arg(long, short, global = true, value_name = "FILE")]
    config: Vec<PathBuf>,
    /// The address of Redis, in place of the configured one. Others can see it: put passwords elsewhere.
    #[arg(long, global = true, value_name = "URL")]
    redis: Option<String>,
    /// The first part of every key, in place of the configured one.
    #[arg(long, global = true, value_name = "NAME")]
    namespace: Option<String>,
    /// Answer with JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run jobs until SIGTERM or SIGINT; a second one cuts running jobs short.
    Worker(worker::Args),
    /// Start a private Redis and a worker, to try things out.
    Dev(dev::Args),
    /// See it all at work: 300 report jobs, two workers, one of them killed in the middle, and the account.
    #[cfg(feature = "http")]
    Demo(demo::Args),
    /// One worker of the demo.
    #[cfg(feature = "http")]
    #[command(hide = true)]
    DemoWorker(demo::work::Args),
    /// Submit a job, or with --bulk many.
    Enqueue(Box<enqueue::Args>),
    /// Show everything known about one job.
    Status(status::Args),
    /// Show how far a batch is, and what it waits for.
    Batch(batch::Args),
    /// Show the steps of a job that is made of steps, or decide about one.
    Steps(steps::Args),
    /// Cancel a job, wherever it is: one that runs is told to end.
    Cancel(cancel::Args),
    /// Count the jobs of each queue.
    Queues(queues::Args),
    /// List the workers.
    Workers,
    /// List, show, replay or drop dead letters.
    Dead(dead::Args),
    /// List or cancel jobs that are due later.
    Delayed(delayed::Args),
    /// Add, list, pause, resume, run or remove recurring jobs.
    Cron(cron::Args),
    /// Show what was told of a queue's jobs, or follow what is told.
    Events(events::Args),
    /// List what a worker tells at /metrics.
    Metrics,
    /// Find out whether this Redis and this login are fit for a fleet.
    ///
    /// Exit code 0: fit, perhaps with warnings. 3: Redis cannot be reached, or refuses the login. 5: unfit.
    Check,
    /// Ask the worker beside it how it does, for Docker's HEALTHCHECK and its like. Exit code 0: well. 1: not.
    Healthcheck(healthcheck::Args),
    /// Check or show the configuration.
    Config(config::Args),
    /// Measure what streamfleet costs, beside the same work as raw commands, on a private Redis.
    Bench(bench::Args),
}

impl Command {
    /// Whether a signal stops it in good order.
    fn serves(&self) -> bool {
        match self {
            Self::Worker(_) | Self::Dev(_) => true,
            #[cfg(feature = "http")]
            Self::Demo(_) | Self::DemoWorker(_) => true,
            _ => false,
        }
    }

    async fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Self::Worker(_) => worker::run(context).await,
            Self::Dev(args) => dev::run(args, context).await,
            #[cfg(feature = "http")]
            Self::Demo(args) => demo::run(args, context).await,
            #[cfg(feature = "http")]
            Self::DemoWorker(args) => demo::work::run(args, context).await,
            Self::Enqueue(args) => enqueue::run(*args, context).await,
            Self::Status(args) => status::run(args, context).await,
            Self::Batch(args) => batch::run(args, context).await,
            Self::Steps(args) => steps::run(args, context).await,
            Self::Cancel(args) => cancel::run(args, context).await,
            Self::Queues(args) => queues::run(args, context).await,
            Self::Workers => workers::run(context).await,
            Self::Events(args) => events::run(args, context).await,
            Self::Dead(args) => dead::run(args, context).await,
            Self::Delayed(args) => delayed::run(args, context).await,
            Self::Cron(args) => cron::run(args, context).await,
            Self::Metrics => metrics::run(context.output),
            Self::Check => check::run(context).await,
            Self::Healthcheck(args) => healthcheck::run(args, context).await,
            Self::Config(_) => config::show(context),
            Self::Bench(args) => bench::run(args, context).await,
        }
    }
}

/// What every command gets.
pub(crate) struct Context {
    /// What signals ask for, where the command is one that they stop in good order.
    pub(crate) shutdown: Shutdown,
    pub(crate) output: Output,
    pub(crate) effective: Effective,
}

impl Context {
    /// Connects to the configured Redis.
    pub(crate) async fn broker(&self) -> anyhow::Result<Broker> {
        let redis = &self.effective.config.redis;
        let broker = Broker::connect(redis.clone()).await;
        broker.with_context(|| format!("cannot reach redis at {}", redis.shown()))
    }
}

/// A mistake in the command line or the configuration.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Wrong(pub(crate) String);

/// Runs the program.
pub(crate) fn main() -> ExitCode {
    let signals = Early::catch();
    let cli = Cli::parse();
    let is_healthcheck = matches!(cli.command, Command::Healthcheck(_));
    match try_main(cli, signals) {
        Ok(exit) => exit.into(),
        Err(error) => {
            output::complain(&format!("error: {error:#}"));
            // Docker knows 0 and 1, and keeps 2 for itself.
            if is_healthcheck { Exit::Failed.into() } else { Exit::of(&error).into() }
        }
    }
}

fn try_main(cli: Cli, signals: Early) -> anyhow::Result<Exit> {
    let shutdown = Shutdown::new();
    let _watched = if cli.command.serves() {
        Some(Watch::start(signals, shutdown.clone()).context("signals cannot be watched")?)
    } else {
        signals.release();
        None
    };
    let output = if cli.json { Output::Programs } else { Output::People };
    let mut flags = Flags { redis: cli.redis, namespace: cli.namespace, ..Flags::default() };
    if let Command::Worker(args) = &cli.command {
        args.lay_on(&mut flags);
    }
    let read = Sources::of_process(cli.config, flags).read();
    if let Command::Config(config::Args { what: config::What::Check }) = &cli.command {
        return config::check(read, output);
    }
    let effective = read.map_err(|invalid| Wrong(invalid.to_string()))?;
    let context = Context { shutdown, output, effective };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if matches!(cli.command, Command::Bench(_)) {
        runtime.worker_threads(bench::threads());
    }
    let runtime = runtime.enable_all().build()?;
    let done = runtime.block_on(cli.command.run(&context));
    // A handler that blocks its thread must not keep the process.
    runtime.shutdown_background();
    done
}
