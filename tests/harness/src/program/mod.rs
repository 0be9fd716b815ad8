//! A worker process for tests: this same test binary, started again with one test that becomes a worker if its environment
//! says so. Its handler obeys the payload and writes the ledger.

mod handler;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use streamfleet::hooks::Publish;
use streamfleet::job::{Backoff, Policy};
use streamfleet::{Fleet, FleetConfig, Shutdown, Steps};

use crate::ledger::Ledger;
use crate::process::{Launch, orders};
use handler::{Obeys, Shared};

pub use handler::Sabotage;

/// What a worker process gets from its environment.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Program {
    pub url: String,
    /// The directory of the ledger.
    pub ledger: PathBuf,
    pub lease_ms: u64,
    pub retention_ms: u64,
    pub backoff_ms: u64,
    pub max_attempts: u32,
    pub max_losses: u32,
    pub concurrency: usize,
    pub prefetch: usize,
    pub max_lifetime_ms: Option<u64>,
    pub max_rss: Option<u64>,
    /// What goes to the event stream.
    pub publish: Publish,
    /// The bug that it carries.
    pub sabotage: Option<Sabotage>,
}

impl Program {
    /// Returns a worker without bugs and with a lease of one second.
    pub fn new(url: &str, ledger: &Path) -> Self {
        Self {
            url: url.to_owned(),
            ledger: ledger.to_owned(),
            lease_ms: 1_000,
            retention_ms: 1_000,
            backoff_ms: 50,
            max_attempts: 4,
            max_losses: 3,
            concurrency: 16,
            prefetch: 0,
            max_lifetime_ms: None,
            max_rss: None,
            publish: Publish::default(),
            sabotage: None,
        }
    }

    /// Returns the process to start.
    pub fn launch(&self) -> Launch {
        Launch::this_program("worker_process_entry", self)
    }

    pub fn policy(&self) -> Policy {
        let backoff = Backoff::Fixed(Duration::from_millis(self.backoff_ms));
        let policy = Policy::default().max_attempts(self.max_attempts).max_losses(self.max_losses);
        policy.backoff(backoff).jitter(0.0)
    }

    fn config(&self) -> FleetConfig {
        let mut config = FleetConfig::default();
        config.redis.url = self.url.as_str().into();
        config.worker.lease = Duration::from_millis(self.lease_ms);
        config.worker.retention = Duration::from_millis(self.retention_ms);
        config.worker.prefetch = self.prefetch;
        config.worker.max_lifetime = self.max_lifetime_ms.map(Duration::from_millis);
        config.worker.max_rss = self.max_rss;
        config.events.publish = self.publish;
        for queue in config.worker.queues.values_mut() {
            queue.concurrency = self.concurrency;
        }
        config
    }

    fn run(self) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let writer = Ledger::new(&self.ledger).writer(&format!("worker-{}", std::process::id()));
        let handler = Arc::new(Obeys::new(writer, &self));
        let builder = Fleet::builder(self.config());
        let builder = builder.handler_with("test", self.policy(), Shared(Arc::clone(&handler))).unwrap();
        let steps = Steps::builder().auto("audit", Shared(Arc::clone(&handler)));
        let steps = steps.once("charge", Shared(Arc::clone(&handler)));
        let steps = steps.auto("mail", Shared(Arc::clone(&handler))).auto("render", Shared(handler));
        let steps = steps.after("mail", ["charge"]).build().unwrap();
        let builder = builder.steps("gift", self.policy(), steps).unwrap();
        runtime.unwrap().block_on(builder.build().run(Shutdown::new())).unwrap();
    }
}

/// Becomes a worker if [`Program::launch`] started this process; otherwise returns at once. Each test program that launches
/// workers has a test named `worker_process_entry` that calls this.
pub fn run_if_launched() {
    if let Some(program) = orders::<Program>() {
        program.run();
    }
}
