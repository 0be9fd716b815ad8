//! `streamfleet sql`: the tables of a database, and what a process does with it: it writes the history of queues and submits the rows of the
//! outbox. Any process with the section may do it; one at a time does, chosen by a lease in Redis. Nothing here can hold up a job.

mod databases;
mod ended;
mod journal_report;
mod migrate;
mod outbox_report;
mod relay;
mod row;
mod schema;
mod spill;
mod stuck_queues;
mod worker_versions;
mod writer;

use clap::{Args as ClapArgs, Subcommand};

use super::Context;
use super::exit::Exit;
pub(crate) use databases::Databases;

/// How `sql` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet sql schema postgres
  streamfleet sql migrate
  streamfleet sql migrate --url-file /run/secrets/history-url --only outbox,effects";

/// The arguments of `sql`.
#[derive(ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Create or update the tables of the history, the outbox and effects.
    Migrate(migrate::Args),
    /// Print the statements that create the tables.
    Schema(schema::Args),
}

/// Runs the subcommand.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    match args.action {
        Action::Migrate(args) => migrate::run(args, context).await,
        Action::Schema(args) => schema::run(&args, context),
    }
}
