//! `streamfleet sql migrate`: creates or updates the tables.

use std::path::PathBuf;

use anyhow::Context as _;
use secrecy::SecretString;
use serde::Serialize;
use streamfleet_sql::history::{Day, partitions};
use streamfleet_sql::schema::{self, Part};
use streamfleet_sql::{Database, Options};

use crate::exit::Exit;
use crate::history::now_ms;
use crate::output::{self, Table};
use crate::{Context, Wrong};

/// How `sql migrate` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet sql migrate
  streamfleet sql migrate --dry-run
  streamfleet sql migrate --url-file /run/secrets/history-url --only outbox,effects";

/// The arguments of `sql migrate`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// A file with the address of the database, instead of those in `history.url_file` and `outbox.url_file`.
    #[arg(long, value_name = "FILE")]
    url_file: Option<PathBuf>,
    /// Create only these: history, outbox, effects. Default: what the configuration uses; with --url-file, all.
    #[arg(long, value_delimiter = ',', value_name = "PART,…", value_parser = part)]
    only: Vec<Part>,
    /// Only list what is missing.
    #[arg(long)]
    dry_run: bool,
}

/// A migration, and where it was applied.
#[derive(Serialize)]
struct Applied {
    database: String,
    version: u32,
    name: &'static str,
    part: &'static str,
    applied: bool,
}

/// Reads the name of a part.
pub(super) fn part(text: &str) -> Result<Part, String> {
    Part::named(text).ok_or_else(|| "must be history, outbox or effects".to_owned())
}

/// Applies what each database lacks, and makes the partitions of the next days.
pub(super) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let mut all = Vec::new();
    for (address, parts) in databases(&args, context)? {
        let database = Database::connect(&address, &Options::default()).await?;
        let (parts, shown) = (selected(&parts, &args.only), database.to_string());
        let migrations = if args.dry_run {
            schema::pending(&database, &parts).await?
        } else {
            let applied = schema::migrate(&database, &parts).await?;
            if parts.contains(&Part::History) {
                // So that no row comes to the catch-all before a worker has looked after the partitions.
                partitions::prepare(&database, Day::of_ms(now_ms())).await?;
            }
            applied
        };
        database.close().await;
        all.extend(migrations.into_iter().map(|migration| Applied {
            database: shown.clone(),
            version: migration.version,
            name: migration.name,
            part: migration.part.as_str(),
            applied: !args.dry_run,
        }));
    }
    context.output.print_named(
        &all,
        |all| all.iter().map(|one| one.name.to_owned()).collect(),
        |all| table(all),
    )?;
    Ok(Exit::Done)
}

/// The databases, each with the parts that it is for.
fn databases(args: &Args, context: &Context) -> anyhow::Result<Vec<(SecretString, Vec<Part>)>> {
    if let Some(path) = &args.url_file {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        return Ok(vec![(SecretString::from(text.trim_end()), Part::ALL.to_vec())]);
    }
    let config = &context.effective.config;
    let history = config.history.as_ref().map(|history| (history.address(), vec![Part::History]));
    let outbox = config.outbox.as_ref().map(|outbox| (outbox.address(), vec![Part::Outbox, Part::Effects]));
    let named: Vec<_> = history.into_iter().chain(outbox).collect();
    if named.is_empty() {
        let why = "no database is configured: add [history] or [outbox], or name one with --url-file";
        return Err(Wrong(why.to_owned()).into());
    }
    named.into_iter().map(|(address, parts)| Ok((address?, parts))).collect()
}

fn selected(parts: &[Part], only: &[Part]) -> Vec<Part> {
    parts.iter().copied().filter(|part| only.is_empty() || only.contains(part)).collect()
}

fn table(all: &[Applied]) -> Table {
    output::table_of(
        all,
        &[
            ("DATABASE".into(), &|one: &Applied| one.database.clone()),
            ("VERSION".into(), &|one: &Applied| one.version.to_string()),
            ("NAME".into(), &|one: &Applied| one.name.to_owned()),
            ("PART".into(), &|one: &Applied| one.part.to_owned()),
            ("APPLIED".into(), &|one: &Applied| if one.applied { "yes" } else { "no" }.to_owned()),
        ],
    )
}
