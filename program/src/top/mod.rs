//! `streamfleet top`: a terminal program on the queues, their jobs, dead letters, workers, gates and tasks. It reads what the lists of
//! other commands read, and changes what their operations change.
//!
//! `state` is pure: keys, time and what was read change it, and it says what to do. `view` draws it. `session` carries out what it says:
//! `read` and `action` ask Redis beside the keys, which never wait for it. `screen` takes the terminal and gives it back.

mod action;
mod key;
mod lists;
mod read;
mod screen;
mod session;
mod state;
mod view;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use streamfleet::job::QueueName;

use super::exit::Exit;
use super::output::Repeat;
use super::{Context, Wrong};

/// How `top` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet top
  streamfleet top mail report --every 5s --by ann
  streamfleet top --limit 20 > looks.txt";

/// The arguments of `top`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only these queues. Default: every queue of the namespace.
    names: Vec<QueueName>,
    /// The time between two looks.
    #[arg(long, value_name = "INTERVAL", default_value = "2s", value_parser = Repeat::interval)]
    every: Duration,
    /// The maximum number of running jobs that are listed if stdout is not a terminal.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: u64,
    /// Who acts, for the audit. Default: the user of this machine, such as ann@ops-1.
    #[arg(long, value_name = "NAME", alias = "as")]
    by: Option<String>,
}

impl Args {
    /// Whether a signal stops it gracefully: the terminal must be given back.
    pub(crate) fn serves(&self) -> bool {
        is_interactive()
    }
}

/// Whether somebody can read the screen and press keys.
fn is_interactive() -> bool {
    io::stdout().is_terminal() && io::stdin().is_terminal()
}

/// Shows the fleet until somebody quits. Without a terminal, prints lists until it is interrupted.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    if context.output.is_json() {
        let why = "top is for people: use `queues` and `jobs --running` for JSON";
        return Err(Wrong(why.to_owned()).into());
    }
    if is_interactive() { session::run(args, context).await } else { lists::run(args, context).await }
}
