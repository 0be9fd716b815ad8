//! The hidden command `demo-worker`: one process of the demo's fleet. Types that need no Rust code are in its
//! configuration (`report.year` runs a program, `report.notify` sends a POST). The Rust handlers are added here.

mod handlers;
mod report;
pub(super) mod table;

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use handlers::{Averages, Desk, Flaky, Hang};
use streamfleet::job::{Backoff, Policy, Tracking};
use streamfleet::service::{Port, Process};
use streamfleet::{Builder, Shutdown};
use table::Table;

use super::folder;
use crate::Context;
use crate::exit::Exit;
use crate::{Wrong, times};

/// How long a worker may take to exit after its parent is gone.
const ORPHANED_FOR: Duration = Duration::from_secs(5);

/// The arguments of `demo-worker`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The demo's folder.
    #[arg(long)]
    folder: PathBuf,
    /// Extra time that a report takes.
    #[arg(long, value_parser = times::duration)]
    pace: Duration,
}

/// Runs until stopped, or until the demo is gone.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let csv =
        std::fs::read_to_string(args.folder.join(folder::TABLE_FILE)).context("failed to read the table")?;
    let table = Arc::new(Table::parse(&csv).map_err(anyhow::Error::msg)?);
    let desk = Desk { table, folder: args.folder, pace: args.pace };
    let builder = context.effective.fleet().map_err(|invalid| Wrong(invalid.to_string()))?;
    let process = Process::prepare(native(builder, &desk)?, &context.effective, Port::IfFree).await?;
    let shutdown = context.shutdown.clone();
    follow_parent(shutdown.clone())?;
    Box::pin(process.run(shutdown)).await?;
    Ok(Exit::Done)
}

fn native(builder: Builder, desk: &Desk) -> anyhow::Result<Builder> {
    let policy = Policy::default()
        .timeout(Duration::from_secs(10))
        .backoff(Backoff::Fixed(super::BACKOFF))
        .tracking(Tracking::All);
    let impatient = policy.clone().timeout(Duration::from_secs(1)).max_attempts(2);
    Ok(builder
        .handler_with("report.month", policy.clone(), Averages(desk.clone()))?
        .handler_with("report.flaky", policy.clone(), Flaky(desk.clone()))?
        .handler_with("report.fatal", policy, Averages(desk.clone()))?
        .handler_with("report.hang", impatient, Hang)?)
}

/// Stops the worker when the demo is gone. The demo holds the other end of standard input and never writes to it, so the
/// end of input means that the demo has ended in some way. Its Redis is then gone too, so no job can be given back and
/// there is nothing to wait for.
fn follow_parent(shutdown: Shutdown) -> std::io::Result<()> {
    let watch = move || {
        drop(std::io::stdin().lock().read(&mut [0]));
        shutdown.request();
        shutdown.request();
        std::thread::park_timeout(ORPHANED_FOR);
        std::process::exit(1);
    };
    std::thread::Builder::new().name("parent".to_owned()).spawn(watch).map(drop)
}
