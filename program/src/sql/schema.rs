//! `streamfleet sql schema`: prints the statements that create the tables.

use streamfleet_sql::Dialect;
use streamfleet_sql::schema::{self, Part};

use super::migrate::part;
use crate::Context;
use crate::exit::Exit;

/// How `sql schema` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet sql schema postgres
  streamfleet sql schema mysql --only outbox";

/// The arguments of `sql schema`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The language: mysql (also for MariaDB), postgres or sqlite.
    #[arg(value_parser = dialect)]
    dialect: Dialect,
    /// Print only these: history, outbox, effects. Default: all.
    #[arg(long, value_delimiter = ',', value_name = "PART,…", value_parser = part)]
    only: Vec<Part>,
}

fn dialect(text: &str) -> Result<Dialect, String> {
    Dialect::named(text).ok_or_else(|| "must be mysql, postgres or sqlite".to_owned())
}

/// Prints the statements.
pub(super) fn run(args: &Args, context: &Context) -> anyhow::Result<Exit> {
    let parts = if args.only.is_empty() { Part::ALL.to_vec() } else { args.only.clone() };
    context.output.line(schema::print(args.dialect, &parts).trim_end())?;
    Ok(Exit::Done)
}
