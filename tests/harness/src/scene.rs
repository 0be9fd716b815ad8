//! What most traps need: a server, a proxy in front of it, and a direct connection to inspect the queue.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use streamfleet::event::{Event, Events, QueueEvent};
use streamfleet::job::{Encoding, JobId};
use streamfleet::{
    Broker, Fleet, FleetConfig, Handler, JobContext, JobError, Producer, Queue, RawPayload, Submission,
};
use tokio::sync::watch;

use crate::fleet::{Running, config, queue, quick};
use crate::proxy::Proxy;
use crate::redis_server::RedisServer;
use crate::wait::until_async;

/// How long the fleet has to recover.
pub const SOON: Duration = Duration::from_secs(20);

/// Longer than any test, so that whatever happens is not caused by a takeover.
pub const LONG: Duration = Duration::from_secs(120);

/// The stream of the normal lane.
pub const STREAM: &str = "sf:{default}:jobs";

/// Adds entries and delivers them to a consumer that has been silent for a minute. One script does both, so that no worker gets
/// them first.
const LEAVE: &str = "for _ = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'type', 'test', 'payload', '{}') end \
    local read = redis.call('XREADGROUP', 'GROUP', 'fleet', 'gone', 'COUNT', ARGV[1], 'STREAMS', KEYS[1], '>') \
    for _, entry in ipairs(read[1][2]) do \
    redis.call('XCLAIM', KEYS[1], 'fleet', 'gone', 0, entry[1], 'IDLE', 60000, 'JUSTID') end return 1";

/// A server, a proxy in front of it, and the queue over a direct connection.
pub struct Scene {
    pub server: RedisServer,
    pub proxy: Proxy,
    pub queue: Queue,
}

impl Scene {
    pub async fn new() -> Self {
        Self::on(RedisServer::start()).await
    }

    pub async fn on(server: RedisServer) -> Self {
        let proxy = Proxy::start(server.addr());
        let queue = queue(&server).await;
        Self { server, proxy, queue }
    }

    /// Returns a configuration that connects through the proxy.
    pub fn config(&self, lease: Duration) -> FleetConfig {
        let mut config = config(&self.server.url_through(self.proxy.addr()));
        config.worker.lease = lease;
        config
    }

    /// Starts a process of the fleet behind the proxy.
    pub fn fleet(&self, lease: Duration, handler: impl Handler) -> Running {
        Running::start_with(self.config(lease), quick(3), handler)
    }

    /// Starts a process of the fleet that bypasses the proxy.
    pub fn sound_fleet(&self, lease: Duration, handler: impl Handler) -> Running {
        let mut config = config(&self.server.url());
        config.worker.lease = lease;
        Running::start_with(config, quick(3), handler)
    }

    /// Returns a producer behind the proxy.
    pub async fn producer(&self) -> Producer {
        let broker = Broker::connect(self.config(LONG).redis).await.unwrap();
        Producer::new(broker.queue("default".parse().unwrap()))
    }

    /// Leaves this many entries to a worker that died a minute ago. The queue must have been joined.
    pub fn leave_stale(&self, count: u64) {
        self.server.cmd(&["EVAL", LEAVE, "1", STREAM, &count.to_string()]);
    }

    /// Runs a command, and returns the integer that Redis answers.
    pub fn int(&self, command: &[&str]) -> i64 {
        match self.server.cmd(command) {
            redis::Value::Int(number) => number,
            other => panic!("{command:?} answered {other:?}"),
        }
    }

    /// Waits until nothing is waiting, running or delayed. Errors of the queue are ignored until then.
    pub async fn until_at_rest(&self) {
        until_async("the queue to be at rest", 2 * SOON, async || {
            let snapshot = self.queue.snapshot().await;
            snapshot.is_ok_and(|snapshot| snapshot.waiting() + snapshot.running() + snapshot.delayed == 0)
        })
        .await;
    }
}

/// Counts the entries that processes take over.
#[derive(Clone, Default)]
pub struct Claims(Arc<AtomicU64>);

impl Claims {
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Starts a process whose takeovers are counted.
    pub fn start(&self, config: FleetConfig, handler: impl Handler) -> Running {
        let count = Arc::clone(&self.0);
        let events = Events::new(vec![Arc::new(move |event: &Event<'_>| {
            if let Event::Queue { event: QueueEvent::Claimed { jobs, .. }, .. } = event {
                count.fetch_add(*jobs, Ordering::SeqCst);
            }
        })]);
        let builder = Fleet::builder(config).events(events);
        Running::of(builder.handler_with("test", quick(3), handler).unwrap().build())
    }
}

/// Returns a job of the type `test` with this payload.
pub fn job(payload: impl Into<Vec<u8>>) -> Submission {
    Submission::new("test").unwrap().payload(payload.into(), Encoding::Raw).unwrap()
}

/// Submits jobs of the type `test` with these payloads.
pub async fn send(server: &RedisServer, payloads: &[&str]) -> Vec<JobId> {
    let producer = Producer::new(queue(server).await);
    producer.submit_all(payloads.iter().map(|payload| job(*payload))).await.unwrap()
}

/// A handler whose jobs with a payload that begins with `wait` run until the gate is opened; the others succeed at once.
#[derive(Clone)]
pub struct Gate {
    open: watch::Sender<bool>,
    seen: Arc<Mutex<BTreeMap<String, Seen>>>,
}

/// What a gate saw of one job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub starts: u32,
    pub ends: u32,
    pub cancelled: u32,
}

impl Gate {
    pub fn closed() -> Self {
        Self { open: watch::Sender::new(false), seen: Arc::default() }
    }

    pub fn open(&self) {
        self.open.send_replace(true);
    }

    pub fn of(&self, job: &JobId) -> Seen {
        self.seen.lock().unwrap().get(&job.to_string()).copied().unwrap_or_default()
    }

    /// Returns how many attempts were cancelled.
    pub fn cancelled(&self) -> u32 {
        self.seen.lock().unwrap().values().map(|seen| seen.cancelled).sum()
    }

    pub async fn until_started(&self, job: &JobId) {
        until_async("the job to start", SOON, async || self.of(job).starts > 0).await;
    }

    pub async fn until_ended(&self, job: &JobId) {
        until_async("the job to end", 2 * SOON, async || self.of(job).ends > 0).await;
    }

    fn note(&self, job: &JobId, note: impl FnOnce(&mut Seen)) {
        note(self.seen.lock().unwrap().entry(job.to_string()).or_default());
    }
}

impl Handler for Gate {
    type Payload = RawPayload;
    type Output = Value;

    async fn run(&self, payload: RawPayload, context: JobContext) -> Result<Value, JobError> {
        self.note(context.id(), |seen| seen.starts += 1);
        let mut open = self.open.subscribe();
        if payload.0.starts_with(b"wait") {
            tokio::select! {
                _ = open.wait_for(|open| *open) => {}
                () = context.cancellation().cancelled() => {
                    self.note(context.id(), |seen| seen.cancelled += 1);
                    return Err(JobError::retry("cancelled"));
                }
            }
        }
        self.note(context.id(), |seen| seen.ends += 1);
        Ok(Value::Null)
    }

    fn grace(&self) -> Duration {
        Duration::from_millis(100)
    }
}
