//! A recurring job: its next runs across the night when the clocks change, and one extra run.
//!
//! ```sh
//! cargo run --example nightly        # redis-server must be on the PATH
//! ```

use std::error::Error;
use std::io::Write;

use streamfleet::cron::{Entry, Missed, Schedule};
use streamfleet::job::{State, Timestamp};
use streamfleet::testing::Sandbox;
use streamfleet::{Fleet, FleetConfig, Handler, JobContext, JobError};

/// Writes a report.
struct Report;

impl Handler for Report {
    type Payload = String;
    type Output = String;

    async fn run(&self, of: String, _context: JobContext) -> Result<String, JobError> {
        Ok(format!("report of {of}"))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(run(&mut std::io::stdout()))
}

/// Prints a schedule's next runs, and runs its job once.
pub(crate) async fn run(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    // On 29 March 2026 there is no half past two at night in Berlin.
    let schedule = Schedule::new("30 2 * * *", "Europe/Berlin")?;
    let mut at = Timestamp::from_ms(1_774_566_000_000).ok_or("a time after the year 9999")?;
    for _ in 0..3 {
        at = schedule.next(at).ok_or("the schedule has no next run")?;
        writeln!(out, "next: {}", jiff::Timestamp::from_millisecond(at.as_ms().cast_signed())?)?;
    }
    let nightly = Entry::new("report.nightly", schedule, "report")?.json(&"sales")?.when_missed(Missed::One);
    let name = nightly.name().clone();
    let fleet = Fleet::builder(FleetConfig::default()).handler_for("report", Report)?.cron(nightly);
    let sandbox = Sandbox::start(fleet).await?;
    // Every process of the fleet declares its entries; the first one stores them in Redis.
    let queue = sandbox.queue();
    while queue.cron().table().await?.entries.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let id = queue.cron().run(&name).await?.ok_or("the recurring job does not exist")?;
    let status = sandbox.until_state(&id, State::Done).await?;
    writeln!(out, "extra run: {}", status.result.unwrap_or_default())?;
    sandbox.stop().await?;
    Ok(())
}
