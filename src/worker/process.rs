//! One worker process at work: a station for each of its queues, one heartbeat for all of them, and the order in which
//! they stop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::{CancellationToken, DropGuard};

use super::Config;
use super::clock::ServerClock;
use super::heartbeat::{Facts, Heartbeat};
use super::pulse::Pulse;
use super::quota::Quota;
use super::registry::Registry;
use super::station::{Shared, Station};
use crate::broker::{Broker, Error, Joined, Queue};
use crate::event::{Event, Events};
use crate::job::{ConsumerName, Timestamp};
use crate::traces::Tracer;
use crate::vital::Vitals;

/// One worker process at work.
pub struct Worker {
    consumer: ConsumerName,
    broker: Broker,
    stations: Vec<Station>,
    heartbeat: std::thread::JoinHandle<()>,
    // A worker that is dropped, and not stopped, ends its heartbeat too.
    heartbeat_stop: DropGuard,
    drain_timeout: Duration,
    quota: Option<Arc<Quota>>,
    events: Events,
    vitals: Vitals,
    clock: Arc<ServerClock>,
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
    pub(crate) async fn start(
        broker: Broker,
        consumer: ConsumerName,
        config: &Config,
        registry: Arc<Registry>,
        events: Events,
        tracer: Option<Tracer>,
    ) -> Result<Self, Error> {
        let (clock, vitals) = (Arc::new(ServerClock::default()), Vitals::new(broker.is_clustered()));
        let quota = config.recycle.max_jobs.map(|most| Arc::new(Quota::new(most)));
        let (mut stations, joins) = (Vec::new(), vitals.line("the start", None));
        for (name, queue_config) in &config.queues {
            let queue = broker.queue(name.clone());
            let joining = queue.join_limited(config.lease, queue_config.max_depth);
            let joined = joins.ask(Duration::ZERO, joining).await?;
            // Said before the first job can run, so that no figure shows jobs done by a Redis that is away.
            events.tell(&Event::Contact { alive: true });
            let longest_timeout = registry.longest_timeout();
            events.tell(&Event::Joined { queue: queue.name(), lease: joined.lease, longest_timeout });
            // Known before the first job can run, so that none of a backlog looks as if it had not waited.
            clock.tell(queue.clock().await?);
            warn_of_differences(&queue, joined, config.lease);
            let shared = Shared {
                consumer: &consumer,
                registry: &registry,
                events: &events,
                clock: &clock,
                quota: &quota,
                vitals: &vitals,
                tracer,
            };
            stations.push(Station::start(&shared, queue, joined.lease, (queue_config, config)).await?);
        }
        let heartbeat_stop = CancellationToken::new();
        let heartbeat = Heartbeat {
            broker: broker.clone(),
            consumer: consumer.clone(),
            charges: stations.iter().map(|station| station.charge(&vitals)).collect(),
            clock: Arc::clone(&clock),
            events: events.clone(),
            facts: facts(&stations, &registry),
            line: vitals.line("the heartbeat", None),
            vitals: vitals.clone(),
            stop: heartbeat_stop.clone(),
        };
        let heartbeat =
            heartbeat.start().map_err(|error| Error::Address(format!("no heartbeat thread: {error}")))?;
        let (drain_timeout, heartbeat_stop) = (config.drain_timeout, heartbeat_stop.drop_guard());
        stations.iter_mut().for_each(|station| station.read(&vitals));
        Ok(Self {
            consumer,
            broker,
            stations,
            heartbeat,
            heartbeat_stop,
            drain_timeout,
            quota,
            events,
            vitals,
            clock,
        })
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
            pulse: station.pulse(),
        };
        self.stations.iter().map(served).collect()
    }

    /// The access to Redis that this worker uses.
    pub(crate) fn broker(&self) -> &Broker {
        &self.broker
    }

    /// How long ago an instant of the clock of Redis was, by this worker's estimate of it. For metrics only.
    pub(crate) fn age(&self) -> Arc<dyn Fn(Timestamp) -> Duration + Send + Sync> {
        let clock = Arc::clone(&self.clock);
        Arc::new(move |then| clock.since(then.as_ms(), Instant::now()))
    }

    /// How many attempts it may start, where that is bounded.
    pub(crate) fn quota(&self) -> Option<Arc<Quota>> {
        self.quota.clone()
    }

    /// The signs of life of its loops.
    pub(crate) fn vitals(&self) -> &Vitals {
        &self.vitals
    }

    /// What the readers know of Redis.
    pub(crate) fn pulses(&self) -> Vec<Arc<Pulse>> {
        self.stations.iter().map(|station| station.pulse()).collect()
    }

    /// Stops in order: no more reading, unstarted jobs back at once, running ones get until the drain timeout (or
    /// `hurry`), then they are cancelled and given back. Returns when Redis knows every outcome, or does not answer.
    pub async fn stop(mut self, hurry: CancellationToken) {
        for station in &mut self.stations {
            station.stop_reading().await;
        }
        let deadline = Instant::now() + self.drain_timeout;
        let draining = self.stations.iter_mut().map(|station| station.drain(deadline, &hurry));
        futures_util::future::join_all(draining).await;
        for station in self.stations {
            station.finish(&self.consumer).await;
        }
        drop(self.heartbeat_stop);
        let heartbeat = self.heartbeat;
        // The thread ends within one command's deadline; a panic in it was reported by the runtime already.
        let ended = tokio::task::spawn_blocking(move || heartbeat.join().is_ok()).await;
        if !ended.unwrap_or(false) {
            tracing::error!("the heartbeat ended badly");
        }
        if let Err(error) = self.broker.forget(&self.consumer).await {
            self.events.redis_error(error.kind(), &error);
        }
    }
}

fn facts(stations: &[Station], registry: &Registry) -> Box<dyn Fn() -> Facts + Send> {
    let names: Vec<_> = stations.iter().map(|station| station.queue.name().to_string()).collect();
    let types: Vec<_> = registry.types().iter().map(ToString::to_string).collect();
    let slots: usize = stations.iter().map(|station| station.slots).sum();
    let dispatchers: Vec<_> = stations.iter().map(Station::dispatcher).collect();
    let stopping: Vec<_> = stations.iter().map(Station::stopping).collect();
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
