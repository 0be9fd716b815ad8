//! A typed handler: what it receives, what it returns, and how it fails.
//!
//! ```sh
//! cargo run --example handler redis://127.0.0.1:6379
//! ```

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use streamfleet::job::{JobId, Policy, Tracking};
use streamfleet::{
    Broker, Fleet, FleetConfig, Handler, Job, JobContext, JobError, Producer, Queue, Shutdown,
};
use streamfleet_engine::admin::Status;

#[derive(serde::Serialize, serde::Deserialize)]
struct Invoice {
    customer: String,
    cents: u64,
}

/// Producers and handlers cannot disagree about the type.
impl Job for Invoice {
    const TYPE: &str = "invoice.charge";
}

#[derive(serde::Serialize)]
struct Receipt {
    number: String,
    cents: u64,
}

/// One value serves many jobs at once. A connection pool or a client would be a field of it.
struct Charge;

impl Handler for Charge {
    type Payload = Invoice;
    type Output = Receipt;

    async fn run(&self, invoice: Invoice, context: JobContext) -> Result<Receipt, JobError> {
        if invoice.cents == 0 {
            return Err(JobError::drop_job("nothing to charge")); // cancelled: neither done nor dead
        }
        if invoice.customer.is_empty() {
            return Err(JobError::fatal("no customer")); // dead at once: another attempt would not help
        }
        let card: u16 = "4242".parse()?; // any error is a failure, and the job is retried
        Ok(Receipt { number: format!("{card}-{}", context.attempt()), cents: invoice.cents })
    }

    /// Every job leaves a record, so that its status can be read afterwards. By default only failures do.
    fn policy(&self) -> Policy {
        Policy::default().tracking(Tracking::All)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(run(&url, &mut std::io::stdout()))
}

/// Runs three jobs and prints how each one ended.
pub(crate) async fn run(url: &str, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let config = FleetConfig::default().redis(url);
    let queue = Broker::connect(config.redis.clone()).await?.queue("default".parse()?);
    let fleet = Fleet::builder(config).handler(Charge).build();
    let shutdown = Shutdown::new();
    let submitted = async {
        let result = submit(&queue, out).await;
        shutdown.request(); // the fleet stops gracefully
        result
    };
    let (submitted, worked) = tokio::join!(submitted, fleet.run(shutdown.clone()));
    worked?;
    submitted
}

async fn submit(queue: &Queue, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let producer = Producer::new(queue.clone());
    for (customer, cents) in [("ann", 1200), ("", 700), ("bob", 0)] {
        let invoice = Invoice { customer: customer.to_owned(), cents };
        let id = producer.enqueue(&invoice).await?;
        let Status { state, result, error, .. } = ended(queue, &id).await?;
        writeln!(out, "{state}: {}", result.or(error).unwrap_or_default())?;
    }
    Ok(())
}

async fn ended(queue: &Queue, id: &JobId) -> Result<Status, Box<dyn Error>> {
    loop {
        match queue.status(id).await? {
            Some(status) if status.state.is_final() => return Ok(status),
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
