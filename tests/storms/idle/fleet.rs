//! A fleet of many workers in one process. Each has its own name, connections and heartbeat, as a process has.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;
use streamfleet::{Fleet, FleetConfig, Handler, JobContext, JobError, RawPayload};
use tokio::sync::Semaphore;

use harness::fleet::Running;
use harness::redis_server::RedisServer;
use harness::wait::until_async;

/// A handler that counts its starts and ends when it is released.
#[derive(Clone)]
pub(super) struct Held {
    started: Arc<AtomicUsize>,
    gate: Arc<Semaphore>,
}

impl Held {
    fn new() -> Self {
        Self { started: Arc::default(), gate: Arc::new(Semaphore::new(0)) }
    }

    /// Returns how many attempts have begun.
    pub(super) fn started(&self) -> usize {
        self.started.load(Ordering::SeqCst)
    }

    /// Lets this many attempts end, now or later.
    pub(super) fn release(&self, attempts: usize) {
        self.gate.add_permits(attempts);
    }
}

impl Handler for Held {
    type Payload = RawPayload;
    type Output = ();

    async fn run(&self, _payload: RawPayload, _context: JobContext) -> Result<(), JobError> {
        self.started.fetch_add(1, Ordering::SeqCst);
        self.gate.acquire().await.expect("the gate is never closed").forget();
        Ok(())
    }
}

/// Submits a job of the queue `default`.
pub(super) fn append(connection: &mut redis::Connection) {
    let mut command = redis::cmd("XADD");
    command.arg(&["sf:{default}:jobs", "*", "type", "test"]).exec(connection).unwrap();
}

/// Workers of the queue `default` on their own server, with one slot each and the default lease.
pub(super) struct Crowd {
    pub(super) server: RedisServer,
    pub(super) handler: Held,
    workers: Vec<Running>,
}

impl Crowd {
    pub(super) async fn start(workers: usize) -> Self {
        let (server, handler) = (RedisServer::start(), Held::new());
        let mut config = FleetConfig::default();
        config.redis.url = server.url().as_str().into();
        for queue in config.worker.queues.values_mut() {
            queue.concurrency = 1;
        }
        let fleet = || Fleet::builder(config.clone()).handler_for("test", handler.clone()).unwrap().build();
        let workers: Vec<_> = (0..workers).map(|_| Running::of(fleet())).collect();
        let crowd = Self { server, handler, workers };
        let alive = async || crowd.signs_of_life() == crowd.workers.len();
        until_async("a heartbeat from every worker", Duration::from_secs(60), alive).await;
        crowd
    }

    fn signs_of_life(&self) -> usize {
        match self.server.cmd(&["KEYS", "sf:worker:*"]) {
            Value::Array(keys) => keys.len(),
            other => panic!("KEYS answered {other:?}"),
        }
    }

    /// Submits this many jobs, as any producer would.
    pub(super) fn submit(&self, jobs: usize) {
        let mut connection = self.server.client();
        (0..jobs).for_each(|_| append(&mut connection));
    }

    pub(super) async fn stop(self) {
        join_all(self.workers.into_iter().map(Running::stop)).await;
    }
}
