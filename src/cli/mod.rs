//! The command line. Each command is one file with its arguments and a `run`.

mod bench;
mod exit;
mod output;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use exit::Exit;
use output::Output;
use streamfleet::broker::Broker;

/// Background jobs on Redis Streams, run by a fleet of identical workers.
#[derive(Parser)]
#[command(version, propagate_version = true, max_term_width = 110)]
struct Cli {
    /// Configuration files (TOML); later ones win. Default: streamfleet.toml in this folder, if there is one.
    #[arg(long, short, global = true, value_name = "FILE")]
    config: Vec<PathBuf>,
    /// The address of Redis, in place of the configured one.
    #[arg(long, global = true, value_name = "URL")]
    redis: Option<String>,
    /// Answer with JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Bench(bench::Args),
}

/// What every command gets.
pub(crate) struct Context {
    pub(crate) output: Output,
    pub(crate) redis: streamfleet::broker::Config,
}

impl Context {
    /// Connects to the configured Redis.
    pub(crate) async fn broker(&self) -> anyhow::Result<Broker> {
        let broker = Broker::connect(self.redis.clone()).await;
        broker.with_context(|| format!("cannot reach redis at {}", self.redis.shown()))
    }
}

/// A mistake in the command line or the configuration.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Wrong(pub(crate) String);

/// Runs the program.
pub(crate) fn main() -> ExitCode {
    let cli = Cli::parse();
    let output = if cli.json { Output::Programs } else { Output::People };
    let context = Context { output, redis: Default::default() };
    let runtime = tokio::runtime::Runtime::new().expect("runtime");
    let result = runtime.block_on(async {
        match cli.command {
            Command::Bench(args) => bench::run(args, &context).await,
        }
    });
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("{error:#}");
            Exit::of(&error).into()
        }
    }
}
