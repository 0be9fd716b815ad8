//! A kit for your own tests (feature `testing`): run one handler on a made-up job and check its outcome, or run a whole
//! fleet on a private Redis and wait for a condition.
//!
//! [`run`] needs neither Redis nor a worker. A handler gets its payload, its context, its timeout and its cancellation
//! as in production, and panics are caught. [`Ended`] holds the outcome, and returns what a policy makes of it:
//!
//! ```
//! use std::time::Duration;
//!
//! use serde_json::json;
//! use streamfleet::job::{Backoff, DeadReason, Policy, Settlement};
//! use streamfleet::testing::{self, TestJob};
//! use streamfleet::{Handler, JobContext, JobError};
//!
//! #[derive(serde::Deserialize)]
//! struct Mail { to: String }
//!
//! struct SendMail;
//!
//! impl Handler for SendMail {
//!     type Payload = Mail;
//!     type Output = String;
//!
//!     async fn run(&self, mail: Mail, context: JobContext) -> Result<String, JobError> {
//!         match mail.to.contains('@') {
//!             true => Ok(format!("sent at attempt {}", context.attempt())),
//!             false => Err(JobError::fatal("not an address")),
//!         }
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let sent = testing::run(&SendMail, TestJob::new("mail.send").json(&json!({ "to": "ann@example.com" })).attempt(2)).await;
//! assert_eq!(sent.result::<String>().as_deref(), Some("sent at attempt 2"));
//!
//! let refused = testing::run(&SendMail, TestJob::new("mail.send").json(&json!({ "to": "ann" }))).await;
//! assert_eq!(refused.error(), Some("not an address"));
//! let settlement = refused.settlement(&Policy::default());
//! assert!(matches!(settlement, Settlement::Bury(burial) if burial.reason == DeadReason::Fatal));
//! # });
//! ```
//!
//! A [`Sandbox`] is a private Redis with your fleet on it. It needs `redis-server` or `valkey-server` on the `PATH`, or
//! another program named in the environment variable `STREAMFLEET_TEST_REDIS`. Every job leaves a record there, so that
//! a test can inspect it. [`Sandbox::advance`] moves time forward for delayed jobs, so that no test waits for a pause:
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use streamfleet::job::{Backoff, Policy, State};
//! use streamfleet::testing::Sandbox;
//! use streamfleet::{Fleet, FleetConfig, Submission};
//!
//! # async fn example(send_mail: impl streamfleet::Handler) -> Result<(), Box<dyn std::error::Error>> {
//! let hourly = Policy::default().max_attempts(2).backoff(Backoff::Fixed(Duration::from_secs(3600)));
//! let fleet = Fleet::builder(FleetConfig::default()).handler_with("mail.send", hourly, send_mail)?;
//! let sandbox = Sandbox::start(fleet).await?;
//!
//! let id = sandbox.submit(Submission::new("mail.send")?.json(&"nobody")?).await?;
//! sandbox.until_state(&id, State::Retrying).await?;
//! sandbox.advance(Duration::from_secs(2 * 3600)).await?; // the hour has passed
//! sandbox.until_state(&id, State::Dead).await?;
//! assert_eq!(sandbox.dead_letters().await?[0].text("dead_reason"), "exhausted");
//! sandbox.stop().await?;
//! # Ok(()) }
//! ```
//!
//! Enable the feature `testing` for your tests alone:
//!
//! ```toml
//! [dependencies]
//! streamfleet = "0.1"
//!
//! [dev-dependencies]
//! streamfleet = { version = "0.1", features = ["testing"] }
//! ```

mod ended;
mod job;
mod sandbox;
mod unmet;

use std::time::Instant;

pub use ended::Ended;
pub use job::TestJob;
pub use sandbox::{Error, Sandbox};
pub use unmet::Unmet;

use crate::job::Outcome;
use crate::worker::{Handler, inline};

/// Runs one attempt of `handler` on a made-up job, as a worker would, and returns how it ended.
///
/// The handler is called once. [`Ended::settlement`] tells you what its outcome means for the job. The fleet's
/// middleware does not run; use a [`Sandbox`] for that. Needs a tokio runtime with time enabled, as every
/// `#[tokio::test]` has.
pub async fn run<H: Handler>(handler: &H, job: TestJob) -> Ended {
    let (delivered, options) = job.deliver();
    let (delivered, envelope) = match delivered {
        Ok(delivered) => delivered,
        Err(malformed) => return Ended::unrun(Outcome::Malformed(malformed.to_string())),
    };
    let started = Instant::now();
    let inline = inline(handler, (delivered.clone(), envelope), options).await;
    Ended::new(delivered, inline, started.elapsed())
}
