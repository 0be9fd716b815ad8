//! Retries, dead letters and replay: a job fails until it is dead, its cause is fixed, and it runs again.
//!
//! ```sh
//! cargo run --example replay redis://127.0.0.1:6379
//! ```

use std::error::Error;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use streamfleet::job::{Backoff, JobId, Policy, State};
use streamfleet::{
    Broker, Fleet, FleetConfig, Handler, JobContext, JobError, Producer, Queue, Shutdown, Submission,
};
use streamfleet_engine::admin::Status;

/// Sends mail while its server is up.
struct SendMail {
    server_is_up: Arc<AtomicBool>,
}

impl Handler for SendMail {
    type Payload = String;
    type Output = String;

    async fn run(&self, to: String, context: JobContext) -> Result<String, JobError> {
        if !self.server_is_up.load(Ordering::Relaxed) {
            return Err(JobError::retry("the mail server does not answer"));
        }
        Ok(format!("sent to {to} at attempt {}", context.attempt()))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(run(&url, &mut std::io::stdout()))
}

/// Lets a job die, and replays it.
pub(crate) async fn run(url: &str, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let config = FleetConfig::default().redis(url);
    let queue = Broker::connect(config.redis.clone()).await?.queue("default".parse()?);
    let server_is_up = Arc::new(AtomicBool::new(false));
    let handler = SendMail { server_is_up: Arc::clone(&server_is_up) };
    // Pauses are longer in production; these are short enough to watch.
    let (base, max) = (Duration::from_millis(50), Duration::from_secs(1));
    let patient = Policy::default().max_attempts(3).backoff(Backoff::Exponential { base, factor: 2.0, max });
    let fleet = Fleet::builder(config).handler_with("mail.send", patient, handler)?.build();
    let shutdown = Shutdown::new();
    let replayed = async {
        let result = fail_and_replay(&queue, &server_is_up, out).await;
        shutdown.request();
        result
    };
    let (replayed, worked) = tokio::join!(replayed, fleet.run(shutdown.clone()));
    worked?;
    replayed
}

async fn fail_and_replay(
    queue: &Queue,
    server_is_up: &AtomicBool,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let mail = Submission::new("mail.send")?.json(&"ann@example.com")?;
    let id = Producer::new(queue.clone()).submit(mail).await?;
    let dead = in_state(queue, &id, State::Dead).await?;
    for attempt in &dead.attempts {
        writeln!(out, "attempt: {}: {}", attempt.outcome, attempt.error)?;
    }
    // A dead letter has all fields of its job, and the reason why it died.
    for letter in queue.dead_letters().page(None, 100).await?.iter().filter(|letter| letter.job() == id) {
        writeln!(out, "dead: {}: {}", letter.text("dead_reason"), letter.text("dead_error"))?;
        server_is_up.store(true, Ordering::Relaxed);
        queue.dead_letters().replay(letter.entry, &letter.job()).await?; // runs once, however often the replay is sent
    }
    let done = in_state(queue, &id, State::Done).await?;
    writeln!(out, "done: {}", done.result.unwrap_or_default())?;
    Ok(())
}

async fn in_state(queue: &Queue, id: &JobId, state: State) -> Result<Status, Box<dyn Error>> {
    loop {
        match queue.status(id).await? {
            Some(status) if status.state == state => return Ok(status),
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
