//! Steps and callbacks: an order whose card must not be charged twice, and the jobs that follow its end.
//!
//! ```sh
//! cargo run --example order        # redis-server must be on the PATH
//! ```

use std::error::Error;
use std::io::Write;

use streamfleet::job::{Policy, State, StepName, Verdict};
use streamfleet::testing::Sandbox;
use streamfleet::{Fleet, FleetConfig, Handler, JobContext, JobError, Steps, Submission};
use streamfleet_engine::admin::{Action, Decided};

/// Charges the card. If the bank's answer is lost, nobody knows whether the card was charged.
struct Charge;

impl Handler for Charge {
    type Payload = u64;
    type Output = &'static str;

    async fn run(&self, cents: u64, _context: JobContext) -> Result<&'static str, JobError> {
        if cents > 100_000 {
            return Err(JobError::retry("the bank did not answer in time"));
        }
        Ok("paid")
    }
}

/// Packs the parcel, which is harmless to repeat.
struct Pack;

impl Handler for Pack {
    type Payload = u64;
    type Output = String;

    async fn run(&self, cents: u64, context: JobContext) -> Result<String, JobError> {
        let paid = context.step_result::<String>("charge")?.is_some();
        Ok(format!("packed for {cents} cents, receipt enclosed: {paid}"))
    }
}

/// Runs after an order has ended, whether it succeeded or failed.
struct Notify;

impl Handler for Notify {
    type Payload = serde_json::Value;
    type Output = serde_json::Value;

    async fn run(
        &self,
        facts: serde_json::Value,
        _context: JobContext,
    ) -> Result<serde_json::Value, JobError> {
        Ok(facts["state"].clone())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(run(&mut std::io::stdout()))
}

/// Runs one order that succeeds, and one that needs a person's decision.
pub(crate) async fn run(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let steps =
        Steps::builder().once("charge", Charge).auto("pack", Pack).after("pack", ["charge"]).build()?;
    let fleet = Fleet::builder(FleetConfig::default());
    let fleet = fleet.steps("order", Policy::default(), steps)?.handler_for("order.notify", Notify)?;
    let sandbox = Sandbox::start(fleet).await?;
    let order = |cents: u64| {
        Submission::new("order")?.json(&cents)?.on_success("order.notify")?.on_failure("order.notify")
    };

    let small = sandbox.submit(order(4_200)?).await?;
    let status = sandbox.until_state(&small, State::Done).await?;
    writeln!(out, "small order: done: {}", status.result.unwrap_or_default())?;

    let large = sandbox.submit(order(420_000)?).await?;
    let status = sandbox.until_state(&large, State::Dead).await?;
    writeln!(out, "large order: dead: {}", status.error.unwrap_or_default())?;
    // Somebody has asked the bank: the card was charged. Now the remaining steps run.
    let clerk = Action::new("steps decide", "clerk").why("receipt 17 of the bank");
    let day = std::time::Duration::from_secs(24 * 3600);
    let charge: StepName = "charge".parse()?;
    let decided =
        sandbox.queue().steps().decide(&large, (&charge, Verdict::Done), None, &clerk, day).await?.value;
    writeln!(out, "decided: the job continues: {}", matches!(decided, Decided::Replayed(_)))?;
    sandbox.until_state(&large, State::Done).await?;
    writeln!(out, "large order: done")?;
    sandbox.until_idle().await?;
    sandbox.stop().await?;
    Ok(())
}
