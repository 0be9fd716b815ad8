//! A worker process's stages, wired together for each of its queues, and the order in which they stop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::clock::ServerClock;
use super::delivery::{Finished, Work};
use super::dispatcher::Dispatcher;
use super::executor::Executor;
use super::flight::Flights;
use super::heartbeat::{Charge, Heartbeat};
use super::outbox::Outbox;
use super::pulse::Pulse;
use super::reader::{Reader, Reading};
use super::registry::Registry;
use super::settler::Settler;
use crate::broker::{Broker, Error, Joined, Queue, Role};
use crate::event::{Event, Events};
use crate::job::{ConsumerName, Outcome, QueueName, Routing};

/// From this concurrency on, a queue has a second reader.
const MANY_SLOTS: usize = 64;

/// How a worker works.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// How long an entry may be silent before another worker takes it over. The fleet has one lease per queue: the first
    /// worker's.
    pub lease: Duration,
    /// How long running handlers get to end when the worker stops.
    pub drain_timeout: Duration,
    /// Unstarted entries kept at hand beyond the free slots.
    pub prefetch: usize,
    /// How long the record of a job that succeeded is kept.
    pub retention: Duration,
    /// How long jobs of unknown types are offered to other workers.
    pub unroutable_after: Duration,
    /// The queues to serve.
    pub queues: BTreeMap<QueueName, QueueConfig>,
}

/// How one queue is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueConfig {
    /// How many handlers of this queue run at once in this process.
    pub concurrency: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            drain_timeout: Duration::from_secs(60),
            prefetch: 0,
            retention: Duration::from_secs(3 * 24 * 3600),
            unroutable_after: Duration::from_secs(24 * 3600),
            queues: BTreeMap::from([(
                "default".parse().expect("default is a queue name"),
                QueueConfig::default(),
            )]),
        }
    }
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self { concurrency: 64 }
    }
}

/// One worker process at work.
pub struct Worker {
    consumer: ConsumerName,
    broker: Broker,
    stations: Vec<Station>,
    heartbeat: std::thread::JoinHandle<()>,
    heartbeat_stop: CancellationToken,
    drain_timeout: Duration,
    events: Events,
}

/// The stages of one queue.
struct Station {
    queue: Queue,
    dispatcher: Arc<Dispatcher>,
    flights: Arc<Flights>,
    pulse: Arc<Pulse>,
    lease: Duration,
    slots: usize,
    outbox: Arc<Outbox>,
    reader: JoinSet<()>,
    executors: JoinSet<()>,
    settler: JoinSet<()>,
    stop_reading: CancellationToken,
}

/// A queue that the worker serves, for those who do its chores.
pub(crate) struct Served {
    pub(crate) queue: Queue,
    pub(crate) lease: Duration,
    pub(crate) pulse: Arc<Pulse>,
}

impl Worker {
    /// Joins the queues' groups and starts to work.
    ///
    /// # Errors
    ///
    /// [`Error`] where Redis cannot be reached, refuses, or holds keys of another type under a queue's names.
    pub async fn start(
        broker: Broker,
        consumer: ConsumerName,
        config: &Config,
        registry: Arc<Registry>,
        events: Events,
    ) -> Result<Self, Error> {
        let clock = Arc::new(ServerClock::default());
        let mut stations = Vec::new();
        for (name, queue_config) in &config.queues {
            let queue = broker.queue(name.clone());
            let joined = queue.join(config.lease).await?;
            warn_of_differences(&queue, joined, config.lease);
            let shared = Shared {
                broker: &broker,
                consumer: &consumer,
                registry: &registry,
                events: &events,
                clock: &clock,
            };
            stations.push(Station::start(&shared, queue, joined.lease, (queue_config, config)).await?);
        }
        let heartbeat_stop = CancellationToken::new();
        let heartbeat = Heartbeat {
            broker: broker.clone(),
            consumer: consumer.clone(),
            charges: stations.iter().map(Station::charge).collect(),
            clock,
            events: events.clone(),
            facts: facts(&stations, &registry),
            stop: heartbeat_stop.clone(),
        };
        let heartbeat =
            heartbeat.start().map_err(|error| Error::Address(format!("no heartbeat thread: {error}")))?;
        let drain_timeout = config.drain_timeout;
        Ok(Self { consumer, broker, stations, heartbeat, heartbeat_stop, drain_timeout, events })
    }

    /// The name under which this process joined.
    pub fn consumer(&self) -> &ConsumerName {
        &self.consumer
    }

    /// The queues served, for those who do their chores.
    pub(crate) fn served(&self) -> Vec<Served> {
        let served = |station: &Station| Served {
            queue: station.queue.clone(),
            lease: station.lease,
            pulse: Arc::clone(&station.pulse),
        };
        self.stations.iter().map(served).collect()
    }

    /// The access to Redis that this worker uses.
    pub(crate) fn broker(&self) -> &Broker {
        &self.broker
    }

    /// The signs of life of the readers.
    pub(crate) fn pulses(&self) -> Vec<Arc<Pulse>> {
        self.stations.iter().map(|station| Arc::clone(&station.pulse)).collect()
    }

    /// Stops in order: no more reading, unstarted jobs back at once, running ones get until the drain timeout (or
    /// `hurry`), then they are cancelled and given back. Returns when Redis knows every outcome, or does not answer.
    pub async fn stop(mut self, hurry: CancellationToken) {
        for station in &mut self.stations {
            station.stop_reading().await;
        }
        let deadline = Instant::now() + self.drain_timeout;
        for station in &mut self.stations {
            station.drain(deadline, &hurry).await;
        }
        for station in self.stations {
            station.finish(&self.consumer).await;
        }
        self.heartbeat_stop.cancel();
        let heartbeat = self.heartbeat;
        // The thread ends within one command's deadline; a panic in it was reported by the runtime already.
        let ended = tokio::task::spawn_blocking(move || heartbeat.join().is_ok()).await;
        if !ended.unwrap_or(false) {
            tracing::error!("the heartbeat ended badly");
        }
        if let Err(error) = self.broker.forget(&self.consumer).await {
            self.events.tell(&Event::RedisError { kind: error.kind(), error: &error.to_string() });
        }
    }
}

/// What the stations of one process share.
struct Shared<'a> {
    broker: &'a Broker,
    consumer: &'a ConsumerName,
    registry: &'a Arc<Registry>,
    events: &'a Events,
    clock: &'a Arc<ServerClock>,
}

impl Station {
    async fn start(
        shared: &Shared<'_>,
        queue: Queue,
        lease: Duration,
        (own, worker): (&QueueConfig, &Config),
    ) -> Result<Self, Error> {
        let dispatcher = Arc::new(Dispatcher::new(own.concurrency, worker.prefetch, threads()));
        let (flights, pulse) = (Arc::new(Flights::default()), Arc::new(Pulse::new()));
        let stop_reading = CancellationToken::new();
        let outbox = Arc::new(Outbox::new(2 * (own.concurrency + worker.prefetch) + 100));
        // Settling has a connection of its own, so that it never waits behind another queue's traffic.
        let settling = queue.over(&shared.broker.open(Role::Commands).await?);
        let settler = Settler {
            queue: settling.clone(),
            consumer: shared.consumer.clone(),
            flights: Arc::clone(&flights),
            policies: Arc::new(shared.registry.policies()),
            routing: Routing { give_up_after: worker.unroutable_after, ..Routing::default() },
            retention: worker.retention,
            events: shared.events.clone(),
        };
        let executor = Arc::new(Executor {
            queue: settling,
            consumer: shared.consumer.clone(),
            registry: Arc::clone(shared.registry),
            dispatcher: Arc::clone(&dispatcher),
            events: shared.events.clone(),
            clock: Arc::clone(shared.clock),
        });
        let mut reader = JoinSet::new();
        let reading = Arc::new(Reading::default());
        // A second connection pays only where many quick jobs run at once.
        for nth in 0..if own.concurrency >= MANY_SLOTS { 2 } else { 1 } {
            let one = Reader {
                reading: Arc::clone(&reading),
                helps: nth > 0,
                queue: queue.clone(),
                link: shared.broker.open(Role::Blocking).await?,
                consumer: shared.consumer.clone(),
                lease,
                dispatcher: Arc::clone(&dispatcher),
                flights: Arc::clone(&flights),
                outbox: Arc::clone(&outbox),
                pulse: Arc::clone(&pulse),
                events: shared.events.clone(),
                stop: stop_reading.clone(),
            };
            reader.spawn(one.run());
        }
        let mut station = Self {
            queue,
            dispatcher,
            flights,
            pulse,
            lease,
            slots: own.concurrency,
            outbox,
            reader,
            executors: JoinSet::new(),
            settler: JoinSet::new(),
            stop_reading,
        };
        station.settler.spawn(settler.run(Arc::clone(&station.outbox)));
        for _ in 0..own.concurrency {
            station.executors.spawn(slot(
                Arc::clone(&station.dispatcher),
                Arc::clone(&executor),
                Arc::clone(&station.outbox),
            ));
        }
        Ok(station)
    }

    fn charge(&self) -> Charge {
        Charge { queue: self.queue.clone(), flights: Arc::clone(&self.flights), lease: self.lease }
    }

    async fn stop_reading(&mut self) {
        self.stop_reading.cancel();
        while self.reader.join_next().await.is_some() {}
        for delivery in self.dispatcher.close() {
            self.outbox.push(Work::Finished(Finished::unrun(delivery, Outcome::Interrupted))).await;
        }
    }

    async fn drain(&mut self, deadline: Instant, hurry: &CancellationToken) {
        let ended = async { while self.executors.join_next().await.is_some() {} };
        tokio::select! {
            () = ended => return,
            () = tokio::time::sleep_until(deadline.into()) => {}
            () = hurry.cancelled() => {}
        }
        tracing::info!(queue = %self.queue.name(), running = self.dispatcher.running(), "cancelling what still runs");
        self.flights.cut_all();
        // Handlers have their own time of grace after this; what does not even end then is left to its lease.
        let ended = async { while self.executors.join_next().await.is_some() {} };
        if tokio::time::timeout(Duration::from_secs(15), ended).await.is_err() {
            tracing::warn!(queue = %self.queue.name(), "some handlers do not end; their leases will expire");
            self.executors.abort_all();
        }
    }

    async fn finish(mut self, consumer: &ConsumerName) {
        self.outbox.close();
        let ended = async { while self.settler.join_next().await.is_some() {} };
        if tokio::time::timeout(Duration::from_secs(10), ended).await.is_err() {
            tracing::warn!(queue = %self.queue.name(), "redis does not take the last outcomes; the jobs will run again");
        }
        match self.queue.reap(self.queue.link(), consumer.as_str()).await {
            Ok(true) => {}
            Ok(false) => {
                tracing::info!(queue = %self.queue.name(), "something is still pending; the lease decides")
            }
            Err(error) => tracing::debug!(%error, "the consumer could not be removed"),
        }
    }
}

/// One slot: one attempt at a time.
async fn slot(dispatcher: Arc<Dispatcher>, executor: Arc<Executor>, outbox: Arc<Outbox>) {
    while let Some(mut delivery) = dispatcher.next().await {
        loop {
            let finished = executor.run(delivery).await;
            // A full outbox means that Redis takes no outcomes: the slot waits, and reading stops with it.
            outbox.push(Work::Finished(finished)).await;
            dispatcher.done();
            // Quick jobs never wait for anything, so the other tasks get their turn here.
            tokio::task::coop::consume_budget().await;
            match dispatcher.next_now() {
                Some(next) => delivery = next,
                None => break,
            }
        }
    }
}

/// The threads that run handlers.
fn threads() -> usize {
    tokio::runtime::Handle::current().metrics().num_workers()
}

fn facts(stations: &[Station], registry: &Registry) -> Box<dyn Fn() -> Vec<(&'static str, String)> + Send> {
    let names: Vec<_> = stations.iter().map(|station| station.queue.name().to_string()).collect();
    let types: Vec<_> = registry.types().iter().map(ToString::to_string).collect();
    let slots: usize = stations.iter().map(|station| station.slots).sum();
    let dispatchers: Vec<_> = stations.iter().map(|station| Arc::clone(&station.dispatcher)).collect();
    let stopping: Vec<_> = stations.iter().map(|station| station.stop_reading.clone()).collect();
    Box::new(move || {
        let running: usize = dispatchers.iter().map(|dispatcher| dispatcher.running()).sum();
        let draining = stopping.iter().any(CancellationToken::is_cancelled);
        vec![
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("queues", names.join(",")),
            ("types", types.join(",")),
            ("slots", slots.to_string()),
            ("running", running.to_string()),
            ("state", if draining { "draining" } else { "running" }.to_owned()),
            ("pid", std::process::id().to_string()),
        ]
    })
}

fn warn_of_differences(queue: &Queue, joined: Joined, lease: Duration) {
    if joined.lease != lease {
        tracing::warn!(
            queue = %queue.name(), configured = ?lease, adopted = ?joined.lease,
            "the fleet has another lease and it is adopted; to change it, stop every worker of the queue first"
        );
    }
    if joined.wire > u64::from(crate::broker::WIRE_VERSION) {
        tracing::warn!(queue = %queue.name(), wire = joined.wire, "a newer version of streamfleet works here");
    }
}
