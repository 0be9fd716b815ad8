//! A fleet process that runs inside the test, on its own server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use streamfleet::job::{Backoff, JobId, Policy, State};
use streamfleet::{
    Broker, Fleet, FleetConfig, Handler, JobContext, JobError, Producer, Queue, RawPayload, Shutdown,
    Submission,
};
use streamfleet_engine::admin::Status;
use tokio::task::JoinHandle;

use super::redis_server::RedisServer;
use super::server_program;
use super::wait::until_async;

/// What a handler does with a payload.
type Act = dyn Fn(&JobContext, &[u8]) -> Result<serde_json::Value, JobError> + Send + Sync;

/// A handler made of a closure, which also counts its runs.
#[derive(Clone)]
pub struct Acts {
    act: Arc<Act>,
    runs: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Acts {
    /// Returns a handler that does this.
    pub fn new(
        act: impl Fn(&JobContext, &[u8]) -> Result<serde_json::Value, JobError> + Send + Sync + 'static,
    ) -> Self {
        Self { act: Arc::new(act), runs: Arc::default() }
    }

    /// Returns a handler that always succeeds.
    pub fn well() -> Self {
        Self::new(|_, _| Ok(serde_json::Value::Null))
    }

    /// Returns how often it ran this job.
    pub fn runs(&self, job: &JobId) -> u32 {
        self.runs.lock().unwrap().get(&job.to_string()).copied().unwrap_or(0)
    }

    /// Returns how many jobs it ran.
    pub fn jobs(&self) -> usize {
        self.runs.lock().unwrap().len()
    }

    /// Returns how often it ran in total.
    pub fn all_runs(&self) -> u32 {
        self.runs.lock().unwrap().values().sum()
    }
}

impl Handler for Acts {
    type Payload = RawPayload;
    type Output = serde_json::Value;

    async fn run(&self, payload: RawPayload, context: JobContext) -> Result<serde_json::Value, JobError> {
        *self.runs.lock().unwrap().entry(context.id().to_string()).or_default() += 1;
        (self.act)(&context, &payload.0)
    }
}

/// Returns a policy with quick retries, so that tests need not wait.
pub fn quick(max_attempts: u32) -> Policy {
    let backoff = Backoff::Fixed(Duration::from_millis(10));
    Policy::default().max_attempts(max_attempts).backoff(backoff).jitter(0.0)
}

/// A fleet process that runs in this test.
pub struct Running {
    pub shutdown: Shutdown,
    task: JoinHandle<()>,
}

impl Running {
    /// Starts a process with one handler for the type `test` on the queue `default`.
    pub fn start(url: &str, policy: Policy, handler: impl Handler) -> Self {
        Self::start_with(config(url), policy, handler)
    }

    /// Starts a process of this configuration with one handler for the type `test`.
    pub fn start_with(config: FleetConfig, policy: Policy, handler: impl Handler) -> Self {
        Self::of(Fleet::builder(config).handler_with("test", policy, handler).unwrap().build())
    }

    /// Starts this process.
    pub fn of(fleet: Fleet) -> Self {
        let shutdown = Shutdown::new();
        let stop = shutdown.clone();
        let task = tokio::task::spawn(async move { fleet.run(stop).await.unwrap() });
        Self { shutdown, task }
    }

    /// Stops it gracefully.
    pub async fn stop(self) {
        self.shutdown.request();
        self.task.await.unwrap();
    }
}

/// Returns a configuration for this server, with a short lease.
pub fn config(url: &str) -> FleetConfig {
    let mut config = FleetConfig::default();
    config.redis.url = url.into();
    config.worker.lease = Duration::from_secs(1);
    config
}

/// Returns the queue `default` of a server, from outside the fleet.
pub async fn queue(server: &RedisServer) -> Queue {
    let broker = Broker::connect(config(&server.url()).redis).await.unwrap();
    broker.queue("default".parse().unwrap())
}

/// Submits a job of the type `test`.
pub async fn submit(queue: &Queue, payload: &str) -> JobId {
    let submission =
        Submission::new("test").unwrap().payload(payload.to_owned(), streamfleet::job::Encoding::Json);
    Producer::new(queue.clone()).submit(submission.unwrap()).await.unwrap()
}

/// Waits until a job that leaves a record is in this state.
pub async fn until_state(queue: &Queue, job: &JobId, state: State) -> Status {
    until_async(&format!("{job} to be {state}"), Duration::from_secs(20), async || {
        queue.status(job).await.unwrap().filter(|status| status.state == state)
    })
    .await
}

/// Waits until nothing is waiting, running or delayed.
pub async fn until_empty(queue: &Queue) {
    until_async("the queue to be empty", Duration::from_secs(30), async || {
        let snapshot = queue.snapshot().await.unwrap();
        snapshot.waiting() + snapshot.running() + snapshot.delayed == 0
    })
    .await;
}

/// Whether workers use `XACKDEL` on this server. If not, says so.
pub async fn uses_xackdel(server: &RedisServer) -> bool {
    let broker = Broker::connect(server.url().as_str()).await.unwrap();
    let server = broker.server().await.unwrap();
    let (name, version) = server.product().unwrap();
    let numbers: Vec<u64> = version.split('.').map_while(|part| part.parse().ok()).collect();
    let is_used = numbers >= if name == "Valkey" { vec![9, 2] } else { vec![8, 2, 3] };
    if !is_used {
        server_program::skip("this server has no XACKDEL that is safe to use");
    }
    is_used
}
