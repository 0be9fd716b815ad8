//! The `streamfleet` program: the command line around the library. Each command is one file with its arguments and a
//! `run`. Everything it does is also in the library's public API.

mod actor;
mod alerts;
mod audit;
mod batch;
mod bench;
mod bulk;
mod cancel;
mod check;
mod completions;
mod config;
mod confirm;
mod console;
mod cron;
mod dead;
mod delayed;
mod dev;
mod enqueue;
mod events;
mod exit;
mod filter;
mod gates;
mod healthcheck;
mod history;
mod import;
mod input;
mod jobs;
mod man;
mod metrics;
mod output;
mod pause;
mod queues;
mod reproduce;
mod sql;
mod stats;
mod status;
mod steps;
mod tasks;
mod top;
mod watch;
mod worker;
mod workers;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use exit::Exit;
use output::{Format, Output};
use streamfleet::schema::Schemas;
use streamfleet::{Broker, Reload, Shutdown};
use streamfleet_operations::times;
use streamfleet_service::config::{Effective, Flags, Sources};
use streamfleet_service::{Signals, hide_memory};
use times::Clock;

/// Every job makes many small allocations, and this allocator handles them faster than the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The commands that a signal stops gracefully. It ends the others at once.
const SERVING: [&str; 14] = [
    "worker",
    "dev",
    "console",
    "jobs",
    "cancel",
    "run-now",
    "move",
    "queues",
    "dead",
    "tasks",
    "campaigns",
    "workers",
    "history",
    "import",
];

/// Examples, and the exit codes, which scripts may rely on.
const AFTER_HELP: &str = "\
Examples:
  streamfleet dev
  streamfleet enqueue mail.send '{\"to\":\"ann@example.com\"}'
  streamfleet queues --watch

Exit codes:
  0  the command did what was asked; a worker was stopped and has given its jobs back
  1  an error that has no code of its own
  2  the command line or the configuration is wrong
  3  Redis is unreachable, or refuses the request
  4  the requested object does not exist
  5  a check found errors, or an import refused rows
  6  the wait ended before the job or task did, or the worker was drained; the job, task or drain continues; an import was stopped
  7  the queue accepts no more jobs for now; only enqueue --bulk may have submitted some, and says which
  8  the job is accepted, but the requested durability is not confirmed

Configuration is read from files, then from variables such as STREAMFLEET__REDIS__URL, then from flags; later ones win.
See `streamfleet config show`.";

/// Background jobs on Redis Streams, run by a fleet of identical workers.
#[derive(Parser)]
#[command(name = "streamfleet", version, propagate_version = true, max_term_width = 110, after_help = AFTER_HELP)]
struct Cli {
    /// Configuration files (TOML); later ones win. Default: streamfleet.toml in the current directory, if it exists.
    #[arg(long, short, global = true, value_name = "FILE")]
    config: Vec<PathBuf>,
    /// The address of Redis, instead of the configured one. Other users can see it, so do not put a password in it.
    #[arg(long, global = true, value_name = "URL")]
    redis: Option<String>,
    /// The prefix of every key, instead of the configured one.
    #[arg(long, global = true, value_name = "NAME")]
    namespace: Option<String>,
    /// The form of the output. Default: table.
    #[arg(long, short, global = true, value_name = "FORMAT", value_enum)]
    output: Option<Format>,
    /// Print JSON, as -o json does.
    #[arg(long, global = true)]
    json: bool,
    /// Show times in UTC instead of the local time zone. JSON always has UTC.
    #[arg(long, global = true)]
    utc: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run jobs until SIGTERM or SIGINT; a second signal cancels the running jobs at once. SIGHUP replaces the programs of pools.
    Worker(worker::Args),
    /// Start a private Redis and a worker to try things out, with --console also the console.
    Dev(dev::Args),
    /// Serve the HTTP API and the console for a browser, until a signal stops it.
    Console(console::Args),
    /// Submit a job, or many with --bulk.
    Enqueue(Box<enqueue::Args>),
    /// Show everything known about one job.
    Status(status::Args),
    /// Show the progress of a batch and what it is waiting for.
    Batch(batch::Args),
    /// Show the steps of a job, or decide about one of them.
    Steps(steps::Args),
    /// Cancel a job, wherever it is, or all jobs that a filter matches. A running job is asked to stop.
    Cancel(Box<cancel::Args>),
    /// Make a delayed job or a retry due now, or all that a filter matches.
    RunNow(Box<bulk::RunNowArgs>),
    /// Move waiting and delayed jobs that a filter matches to another queue.
    Move(Box<bulk::MoveArgs>),
    /// Find jobs by state, type, payload, header, text or time. A signal ends the search, and shows what was found.
    Jobs(Box<jobs::Args>),
    /// Run a job here once, with its payload, headers and steps, to find its mistake. Nothing in Redis changes.
    Reproduce(Box<reproduce::Args>),
    /// Pause a queue, a type or a field's value: no further job starts, and running ones finish.
    Pause(pause::PauseArgs),
    /// Resume what was paused.
    Resume(pause::ResumeArgs),
    /// List gates, or change how many jobs they let through.
    Gates(gates::Args),
    /// Count the jobs of each queue, or empty or delete a queue.
    Queues(queues::Args),
    /// Show how a queue fared lately: jobs that waited, arrived, were done or failed, or what each type did.
    Stats(stats::Args),
    /// Watch and operate queues, jobs, dead letters, workers, gates and tasks in the terminal.
    ///
    /// Press ? for its keys. Actions ask for a reason first, and the audit notes them. If stdin or stdout is not a terminal, it prints
    /// the queues and the jobs that run longest, again and again.
    Top(top::Args),
    /// List the workers, or keep one from taking jobs.
    Workers(workers::Args),
    /// List, group, show, export, replay, drop or edit dead letters.
    Dead(Box<dead::Args>),
    /// List, show, pause, resume, stop or undo tasks: what commands about many jobs have begun.
    #[command(alias = "campaigns")]
    Tasks(tasks::Args),
    /// List incidents, silence their reminders, or send a test message.
    Alerts(alerts::Args),
    /// Show what people did: to queues, which queues they deleted, and about incidents.
    Audit(audit::Args),
    /// List jobs that are due later, or change one of them.
    Delayed(delayed::Args),
    /// Add, list, pause, resume, run or remove recurring jobs.
    Cron(cron::Args),
    /// Show the events of a queue's jobs, or follow new ones.
    Events(events::Args),
    /// Check whether this Redis and this login are fit for a fleet.
    ///
    /// Exit code 0: fit, possibly with warnings. 3: Redis is unreachable, or refuses the login. 5: unfit.
    #[command(
        after_help = "Examples:\n  streamfleet check\n  streamfleet --redis redis://redis.internal:6379 check -o json"
    )]
    Check,
    /// Ask the local worker or console for its health, for Docker's HEALTHCHECK and similar. Exit code 0: healthy. 1: unhealthy.
    Healthcheck(healthcheck::Args),
    /// Show jobs that ended long ago, from a database, or bring them back and run them again.
    History(history::Args),
    /// Take over the tables of another queue: submit the jobs that wait there, and file those that have failed.
    ///
    /// A mapping file says which tables, and what their columns mean. Each row becomes one job, however often the command runs: it goes
    /// on behind the last row that is done. Exit code 5: some rows cannot be jobs. 6: it was stopped.
    Import(Box<import::Args>),
    /// Create the tables of a database for the history, the outbox and effects, or print their statements.
    Sql(sql::Args),
    /// Check or show the configuration.
    Config(config::Args),
    /// Compare streamfleet's performance with the same work done by raw Redis commands, on a private Redis.
    #[command(
        after_help = "Examples:\n  streamfleet bench\n  streamfleet bench --only enqueue,plain --jobs 50000 --rounds 3"
    )]
    Bench(bench::Args),
    #[command(flatten)]
    About(About),
}

/// What the program says about itself. These commands need neither a configuration nor Redis.
#[derive(Subcommand)]
enum About {
    /// List the metrics that a worker exposes at /metrics.
    #[command(after_help = "Examples:\n  streamfleet metrics -o wide\n  streamfleet metrics -o name")]
    Metrics,
    /// Print the completions for a shell.
    Completions(completions::Args),
    /// Print the manual page, or write the pages of all commands into a directory.
    Man(man::Args),
}

impl About {
    fn run(&self, output: Output) -> anyhow::Result<Exit> {
        match self {
            Self::Metrics => metrics::run(output),
            Self::Completions(args) => completions::run(args, output),
            Self::Man(args) => man::run(args, output),
        }
    }
}

impl Command {
    /// Whether a signal stops it gracefully.
    fn serves(&self) -> bool {
        matches!(self, Self::Cancel(_) | Self::RunNow(_) | Self::Move(_) | Self::Worker(_) | Self::Dev(_))
            || matches!(self, Self::Jobs(_) | Self::Import(_))
            || matches!(self, Self::Console(args) if args.serves())
            || matches!(self, Self::Queues(args) if args.serves())
            || matches!(self, Self::Dead(args) if args.serves())
            || matches!(self, Self::Tasks(args) if args.serves())
            || matches!(self, Self::Workers(args) if args.serves())
            || matches!(self, Self::Top(args) if args.serves())
            || matches!(self, Self::History(args) if args.serves())
    }

    async fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Self::Worker(args) => worker::run(args, context).await,
            Self::Dev(args) => dev::run(args, context).await,
            Self::Console(args) => console::run(args, context).await,
            Self::Enqueue(args) => enqueue::run(*args, context).await,
            Self::Status(args) => status::run(args, context).await,
            Self::Batch(args) => batch::run(args, context).await,
            Self::Steps(args) => steps::run(args, context).await,
            Self::Cancel(args) => cancel::run(*args, context).await,
            Self::RunNow(args) => bulk::run_now(*args, context).await,
            Self::Move(args) => bulk::move_jobs(*args, context).await,
            Self::Jobs(args) => jobs::run(*args, context).await,
            Self::Reproduce(args) => reproduce::run(*args, context).await,
            Self::Pause(args) => pause::pause(args, context).await,
            Self::Resume(args) => pause::resume(args, context).await,
            Self::Gates(args) => gates::run(args, context).await,
            Self::Queues(args) => queues::run(args, context).await,
            Self::Stats(args) => stats::run(args, context).await,
            Self::Top(args) => top::run(args, context).await,
            Self::Workers(args) => workers::run(args, context).await,
            Self::Events(args) => events::run(args, context).await,
            Self::Dead(args) => dead::run(*args, context).await,
            Self::Tasks(args) => tasks::run(args, context).await,
            Self::Alerts(args) => alerts::run(args, context).await,
            Self::Audit(args) => audit::run(args, context).await,
            Self::Delayed(args) => delayed::run(args, context).await,
            Self::Cron(args) => cron::run(args, context).await,
            Self::Check => check::run(context).await,
            Self::Healthcheck(args) => healthcheck::run(args, context).await,
            Self::History(args) => history::run(args, context).await,
            Self::Import(args) => import::run(*args, context).await,
            Self::Sql(args) => sql::run(args, context).await,
            Self::Config(config::Args { what: config::What::FromHandlers { pool } }) => {
                config::from_handlers(pool.as_deref(), context).await
            }
            Self::Config(_) => config::show(context),
            Self::Bench(args) => bench::run(args, context).await,
            Self::About(about) => about.run(context.output),
        }
    }
}

/// What every command receives.
pub(crate) struct Context {
    /// The stop that signals request, if the command is one that they stop gracefully.
    pub(crate) shutdown: Shutdown,
    /// Replaces the programs of the pools, if the command runs a worker.
    pub(crate) reload: Reload,
    pub(crate) output: Output,
    /// How times are shown to people.
    pub(crate) clock: Clock,
    pub(crate) effective: Effective,
}

impl Context {
    /// Connects to the configured Redis.
    pub(crate) async fn broker(&self) -> anyhow::Result<Broker> {
        let redis = &self.effective.config.redis;
        let broker = Broker::connect(redis.clone()).await;
        broker.with_context(|| {
            // The packages of `sdk/` know by this beginning that nothing was sent.
            format!("cannot reach redis at {}{}", redis.shown(), hint(Path::new(""), &redis.shown()))
        })
    }

    /// Reads and compiles the configured schemas of types.
    pub(crate) fn schemas(&self) -> Result<Schemas, Wrong> {
        self.effective.schemas().map_err(|invalid| Wrong(invalid.to_string()))
    }
}

/// What to do if nobody has said where Redis is, and `streamfleet dev` has left one of its own in the current folder, `here`.
fn hint(here: &Path, shown: &str) -> String {
    let port = || std::fs::read_to_string(here.join(".streamfleet/port")).ok()?.trim().parse::<u16>().ok();
    match port().filter(|_| shown == streamfleet_engine::Config::default().shown()) {
        Some(port) => format!(
            ", and redis.url is not set; for the one of `streamfleet dev` in this folder: export \
             STREAMFLEET__REDIS__URL=redis://127.0.0.1:{port} STREAMFLEET__REDIS__PASSWORD_FILE=.streamfleet/password; for \
             handlers, set both in the `env` of their pool"
        ),
        None => String::new(),
    }
}

/// A mistake in the command line or the configuration.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Wrong(pub(crate) String);

fn main() -> ExitCode {
    let signals = early_signals();
    let cli = Cli::parse();
    let is_healthcheck = matches!(cli.command, Command::Healthcheck(_));
    match try_main(cli, signals) {
        Ok(exit) => exit.into(),
        Err(error) => {
            output::print_stderr(&format!("error: {error:#}"));
            // Docker knows 0 and 1, and reserves 2.
            if is_healthcheck { Exit::Failed.into() } else { Exit::of(&error).into() }
        }
    }
}

/// Hides secrets and starts to catch signals if an argument names a command that serves. Everything that takes time comes
/// afterwards: an earlier signal would end the process, and its sender would see a worker that failed.
fn early_signals() -> Option<Signals> {
    let serves = std::env::args_os().skip(1).any(|arg| SERVING.iter().any(|name| arg == *name));
    if serves {
        hide_memory();
    }
    serves.then(Signals::catch).and_then(Result::ok)
}

fn try_main(mut cli: Cli, signals: Option<Signals>) -> anyhow::Result<Exit> {
    let (shutdown, reload) = (Shutdown::new(), Reload::new());
    if let Command::Worker(args) = &cli.command {
        args.leave_session();
    }
    if cli.command.serves() {
        let mut signals = signals.map_or_else(Signals::catch, Ok).context("failed to catch signals")?;
        if matches!(cli.command, Command::Worker(_) | Command::Dev(_)) {
            signals = signals.reloading(&reload);
        }
        signals.request(shutdown.clone()).context("failed to watch for signals")?;
    } else if let Some(signals) = signals {
        signals.release();
    }
    let format = if cli.json { Format::Json } else { cli.output.unwrap_or(Format::Table) };
    let output = Output::new(format);
    if let Command::About(about) = &cli.command {
        return about.run(output);
    }
    let mut flags = Flags::default().redis(cli.redis).namespace(cli.namespace);
    if let Command::Worker(args) = &cli.command {
        args.apply_to(&mut flags);
    }
    if let Command::Dev(args) = &mut cli.command {
        args.files.clone_from(&cli.config);
    }
    let read = Sources::of_process(cli.config, flags).read();
    if let Command::Config(config::Args { what: config::What::Check { without_pools } }) = &cli.command {
        return config::check(read, *without_pools, output);
    }
    let effective = read.map_err(|invalid| Wrong(invalid.to_string()))?;
    let clock = if cli.utc { Clock::utc() } else { Clock::local() };
    let context = Context { shutdown, reload, output, clock, effective };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if matches!(cli.command, Command::Bench(_)) {
        runtime.worker_threads(bench::threads());
    }
    let runtime = runtime.enable_all().build()?;
    // The runtime polls in several places. Each would have a copy of all commands, if it knew the future's type.
    let running: Pin<Box<dyn Future<Output = _>>> = Box::pin(cli.command.run(&context));
    let done = runtime.block_on(running);
    // A handler that blocks its thread must not keep the process alive.
    runtime.shutdown_background();
    done
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Returns the commands without subcommands.
    fn leaves(command: &clap::Command) -> Vec<&clap::Command> {
        let below: Vec<&clap::Command> = command.get_subcommands().flat_map(leaves).collect();
        if below.is_empty() { vec![command] } else { below }
    }

    /// Lets a shell split a command, without what it redirects.
    fn words(line: &str) -> Vec<String> {
        let command = [" | ", " < ", " > "].iter().fold(line, |line, end| line.split(end).next().unwrap());
        let script = format!("printf '%s\\0' {command}");
        let printed = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        let printed = String::from_utf8(printed.stdout).unwrap();
        printed.split_terminator('\0').map(str::to_owned).collect()
    }

    #[test]
    fn who_forgot_where_redis_is_learns_of_the_one_that_dev_has_left_here() {
        let here = tempfile::tempdir().unwrap();
        let shown = streamfleet_engine::Config::default().shown();
        assert_eq!(hint(here.path(), &shown), "");
        std::fs::create_dir(here.path().join(".streamfleet")).unwrap();
        std::fs::write(here.path().join(".streamfleet/port"), "6390\n").unwrap();
        let told = hint(here.path(), &shown);
        let variables = "STREAMFLEET__REDIS__URL=redis://127.0.0.1:6390 STREAMFLEET__REDIS__PASSWORD_FILE=.streamfleet/password";
        for want in ["redis.url is not set", variables, "the `env` of their pool"] {
            assert!(told.contains(want), "{want}: {told}");
        }
        assert_eq!(hint(here.path(), "redis://redis.internal:6379"), "", "another Redis is meant");
        std::fs::write(here.path().join(".streamfleet/port"), "$(reboot)").unwrap();
        assert_eq!(hint(here.path(), &shown), "");
    }

    #[test]
    fn every_operation_of_the_table_is_a_command() {
        let program = Cli::command();
        for operation in streamfleet_operations::OPERATIONS {
            let found = operation.name.split(' ').try_fold(&program, |command, word| {
                command.get_subcommands().find(|below| below.get_name() == word)
            });
            assert!(found.is_some(), "{}", operation.name);
        }
    }

    #[test]
    fn every_command_has_examples_and_all_of_them_are_valid() {
        let program = Cli::command();
        program.clone().debug_assert();
        for command in leaves(&program) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples: Vec<&str> =
                help.lines().filter(|line| line.starts_with("  streamfleet ")).collect();
            assert!(!examples.is_empty(), "{} has no example", command.get_name());
            for example in examples {
                if let Err(error) = Cli::try_parse_from(words(example)) {
                    panic!("{example}: {error}");
                }
            }
        }
    }
}
