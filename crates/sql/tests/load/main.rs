//! How large the history becomes, how fast it is written, and how fast it answers, with millions of lives:
//! `make sql-load ARGS="--lives 10000000 --database mariadb"`. Nothing here is a test: it prints figures.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "this is a program of the tests"
)]

mod answers;
mod copies;
mod fill;
#[path = "../databases/kit/hand.rs"]
mod hand;
mod month;
#[expect(dead_code, reason = "only tests have servers that they kill")]
#[path = "../databases/kit/place.rs"]
mod place;
mod questions;
mod report;
mod retention;
#[expect(dead_code, reason = "only tests kill servers")]
#[path = "../databases/kit/server.rs"]
mod server;
mod sizes;

use std::time::Duration;

use clap::{Parser, ValueEnum};
use streamfleet_sql::schema::{Part, migrate};
use streamfleet_sql::{Dialect, Options};

use month::Month;
use place::Place;
use report::Report;

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// How much memory a server has for pages, in MiB: a small part of ten million lives.
const PAGES_MIB: u32 = 1024;

/// Fills a private server with the lives of a month, asks it every question, and drops a day.
#[derive(Parser)]
#[command(name = "sql-load", max_term_width = 110)]
struct Args {
    /// How many lives to write to each database.
    #[arg(long, default_value_t = 300_000, value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    lives: u64,
    /// How many times the database itself copies each of the first nine tenths of the lives, which takes a fraction of the time. The last
    /// tenth is written beside the copies.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100))]
    copies: u64,
    /// Which databases. Default: all.
    #[arg(long = "database", value_enum)]
    databases: Vec<Name>,
    /// How many connections write at a time. SQLite has one.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
    writers: u8,
    /// How often each question is asked, each time for something else.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    times: u32,
    /// The number from which everything random follows.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Name {
    Mariadb,
    Postgres,
    Sqlite,
}

impl Name {
    fn dialect(self) -> Dialect {
        match self {
            Self::Mariadb => Dialect::MySql,
            Self::Postgres => Dialect::Postgres,
            Self::Sqlite => Dialect::Sqlite,
        }
    }
}

#[tokio::main]
async fn main() {
    let args = Args::parse();
    let names = if args.databases.is_empty() { Name::value_variants() } else { &args.databases };
    let mut reports = Vec::new();
    for name in names {
        let report = measure(name.dialect(), &args).await;
        if !args.json {
            print!("{report}");
        }
        reports.push(report);
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&reports).unwrap());
    }
}

async fn measure(dialect: Dialect, args: &Args) -> Report {
    let place = Place::new(dialect).await;
    let database = place.open_with(Options::default()).await;
    migrate(&database, &[Part::History]).await.unwrap();
    database.close().await;
    let month = Month::new(args.lives, args.seed);
    let writers = usize::from(args.writers);
    let first = args.lives * 9 / 10;
    let filled = fill::fill(&place, &month, 0..first, writers).await;
    copies::copy(&place, args.copies).await;
    let filled_last = fill::fill(&place, &month, first..args.lives, writers).await;
    let lives = u64::try_from(place.hand().await.number("SELECT COUNT(*) FROM sf_jobs").await).unwrap();
    let sizes = sizes::of(&place).await;
    let answers = answers::of(&place, &month, args.times).await;
    let dropped = retention::drop_a_day(&place).await;
    Report { database: dialect.as_str(), lives, filled, filled_last, sizes, answers, dropped }
}
