//! How to test a handler: inline on made-up jobs, and in a fleet on a private Redis. In a real project these are two
//! tests.
//!
//! ```sh
//! cargo run --example testing        # redis-server must be on the PATH
//! ```

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use streamfleet::job::{Backoff, InvalidName, Outcome, Policy, Settlement, State};
use streamfleet::testing::{self, Sandbox, TestJob};
use streamfleet::{Builder, Fleet, FleetConfig, Handler, JobContext, JobError, Submission};

/// The handler under test: it resizes pictures, and knows which failures are not worth a retry.
struct Resize;

impl Handler for Resize {
    type Payload = String;
    type Output = u32;

    async fn run(&self, file: String, context: JobContext) -> Result<u32, JobError> {
        if !file.ends_with(".png") {
            return Err(JobError::fatal(format!("{file} is not a picture")));
        }
        if context.attempt() == 1 {
            return Err(JobError::retry("the disk is full"));
        }
        Ok(640)
    }
}

/// The fleet as in production: the sandbox only replaces the address of Redis, and makes every job leave a record.
fn fleet(config: FleetConfig) -> Result<Builder, InvalidName> {
    let hourly = Policy::default().backoff(Backoff::Fixed(Duration::from_secs(3600)));
    Fleet::builder(config).handler_with("picture.resize", hourly, Resize)
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(run(&mut std::io::stdout()))
}

/// Tests the handler both ways.
pub(crate) async fn run(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    inline().await;
    writeln!(out, "inline: as expected")?;
    on_a_private_server().await?;
    writeln!(out, "on a private server: as expected")?;
    Ok(())
}

/// One attempt without Redis: the fastest kind of test.
async fn inline() {
    let done = testing::run(&Resize, TestJob::new("picture.resize").json(&"a.png").attempt(2)).await;
    assert_eq!(done.result::<u32>(), Some(640));

    let failed = testing::run(&Resize, TestJob::new("picture.resize").json(&"a.png")).await;
    assert_eq!(failed.error(), Some("the disk is full"));
    assert!(matches!(failed.settlement(&Policy::default()), Settlement::Defer(_)), "it is retried");

    let wrong = testing::run(&Resize, TestJob::new("picture.resize").json(&7)).await;
    assert!(matches!(wrong.outcome(), Outcome::Failed(_)), "a payload of another type");
    assert!(matches!(wrong.settlement(&Policy::default()), Settlement::Bury(_)), "it is never retried");
}

/// The whole path through Redis. The hour's pause before the retry takes no time.
async fn on_a_private_server() -> Result<(), testing::Error> {
    let sandbox = Sandbox::start(fleet(FleetConfig::default()).expect("a valid type")).await?;
    let job = Submission::new("picture.resize").and_then(|job| job.json(&"a.png")).expect("a valid job");
    let id = sandbox.submit(job).await.expect("the private server accepts it");
    sandbox.until_state(&id, State::Retrying).await?;
    sandbox.advance(Duration::from_secs(2 * 3600)).await?;
    let status = sandbox.until_state(&id, State::Done).await?;
    assert_eq!(status.result.as_deref(), Some("640"));
    assert_eq!(sandbox.dead_letters().await?, []);
    sandbox.stop().await
}
