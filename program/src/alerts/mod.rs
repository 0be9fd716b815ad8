//! `streamfleet alerts`: what is wrong now, who knows of it, and whether messages arrive.

mod ack;
mod list;
mod probe;

pub(crate) use probe::{SinkTest, send};

use super::Context;
use super::exit::Exit;

/// How `alerts` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet alerts list
  streamfleet alerts list --all -o json";

/// The arguments of `alerts`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

/// What to do with alerts.
#[derive(clap::Subcommand)]
enum Action {
    /// List the open incidents, or with --all also those that are resolved.
    List(list::Args),
    /// Send no reminders of an incident for a time, and say why with --reason. The message that it is resolved is sent all the
    /// same.
    Ack(ack::Args),
    /// Send a test message to a configured sink, and print what it answers. Exit code 0: it has taken the message. 1: it has not.
    Test(probe::Args),
}

/// Runs the subcommand.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    match args.action {
        Action::List(args) => list::run(args, context).await,
        Action::Ack(args) => ack::run(args, context).await,
        Action::Test(args) => probe::run(&args, context).await,
    }
}
