//! One process of the demo's fleet, which runs in the demo's folder. Types that need no Rust code are in its
//! configuration (`report.year` runs a program, `report.notify` sends a POST). The Rust handlers are added here.

mod handlers;
mod report;
pub(super) mod table;

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use handlers::{Averages, Flaky, Hang};
use streamfleet::job::{Backoff, Policy};
use streamfleet::{Builder, Shutdown};
use streamfleet_service::config::Sources;
use streamfleet_service::{Port, Process};
use table::Table;

use super::folder::TABLE;

/// How long a worker may take to exit after its parent is gone.
const ORPHANED_FOR: Duration = Duration::from_secs(5);

/// Runs until stopped, or until the demo is gone.
pub(super) async fn run(pace: Duration, shutdown: Shutdown) -> Result<()> {
    // Variables that are set for other fleets do not affect this one.
    let effective = Sources::default().files(["fleet.toml"]).read()?;
    let table = Table::parse(TABLE).context("the table has an invalid line")?;
    let averages = Averages { table: Arc::new(table), folder: "reports/month", pace };
    let builder = native(effective.fleet()?, averages)?;
    let process = Process::prepare(builder, &effective, Port::Required).await?;
    follow_parent(shutdown.clone())?;
    Box::pin(process.run(shutdown)).await?;
    Ok(())
}

/// Adds the Rust handlers.
fn native(builder: Builder, averages: Averages) -> Result<Builder> {
    let backoff = Backoff::Fixed(Duration::from_millis(300));
    let policy = Policy::default().timeout(Duration::from_secs(10)).backoff(backoff);
    let impatient = policy.clone().timeout(Duration::from_secs(1)).max_attempts(2);
    let flaky = Flaky(Averages { folder: "reports/flaky", ..averages.clone() });
    Ok(builder
        .handler_with("report.month", policy.clone(), averages.clone())?
        .handler_with("report.flaky", policy.clone(), flaky)?
        .handler_with("report.fatal", policy, averages)?
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
