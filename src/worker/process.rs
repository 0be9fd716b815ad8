//! One running worker process: a queue worker for each of its queues, one heartbeat for all of them, and the order in which they
//! stop. Each queue is joined separately, as soon as possible, so a queue that cannot be joined does not hold up the others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Config;
use super::clock::ServerClock;
use super::duty::Duty;
use super::heartbeat::{DescribeWorker, Heartbeat};
use super::joined_queue::JoinedQueues;
use super::joiner::{Joiner, OnJoined, QueueWorkers, Served};
use super::queue_worker::{LEAVES_WITHIN, Shared};
use super::quota::Quota;
use super::registry::Registry;
use crate::broker::{Broker, CAN_DRAIN, CAPABILITIES, Error, MAX_TYPES, PoolDown, Queue};
use crate::event::Events;
use crate::health::{Liveness, QueueHealth};
use crate::job::{ConsumerName, Timestamp};
use crate::traces::Tracer;

/// One running worker process.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    queue_workers: Arc<QueueWorkers>,
    /// The queues that have been joined, for the tasks that maintain them.
    served: mpsc::Receiver<Served>,
    queue_health: Vec<(Queue, Arc<QueueHealth>)>,
    joining: JoinSet<()>,
    stop_joining: CancellationToken,
    heartbeat: std::thread::JoinHandle<()>,
    // Dropping a worker without stopping it ends its heartbeat too.
    heartbeat_stop: DropGuard,
}

impl Worker {
    /// Starts joining the queues' groups and working.
    ///
    /// Returns when it has joined one of them, or all have refused. It keeps trying those that cannot be joined.
    ///
    /// # Errors
    ///
    /// [`Error`] if the system cannot start a thread.
    pub(crate) async fn start(
        broker: Broker,
        consumer: ConsumerName,
        config: &Config,
        registry: Arc<Registry>,
        events: Events,
        tracer: Option<Tracer>,
    ) -> Result<Self, Error> {
        let liveness = Liveness::new(broker.is_clustered());
        let quota = config.max_jobs.map(|most| Arc::new(Quota::new(most)));
        let limits = registry.limits().map(Arc::new);
        let shared = Arc::new(Shared {
            broker,
            consumer,
            config: config.clone(),
            registry,
            events,
            clock: Arc::new(ServerClock::default()),
            duty: Arc::new(Duty::new()),
            quota,
            limits,
            liveness,
            tracer,
        });
        let (queues, stop_joining) = (watch::Sender::new(JoinedQueues::new()), CancellationToken::new());
        let heartbeat_stop = CancellationToken::new();
        let heartbeat = heartbeat(&shared, queues.subscribe(), &stop_joining, &heartbeat_stop)
            .map_err(|error| Error::Address(format!("cannot start the heartbeat thread: {error}")))?;
        // Each queue is announced once.
        let most = shared.config.queues.len().max(1);
        let (served, receiver) = mpsc::channel(most);
        let queue_workers = Arc::new(QueueWorkers::default());
        let (mut joining, mut queue_health) = (JoinSet::new(), Vec::new());
        let (tried, mut tries) = mpsc::channel(most);
        let on_joined = OnJoined { queue_workers: Arc::clone(&queue_workers), queues, served };
        for (name, own) in &shared.config.queues {
            let health = Arc::new(QueueHealth::new());
            let queue = shared.broker.queue(name.clone());
            queue_health.push((queue.clone(), Arc::clone(&health)));
            let joiner = Joiner {
                queue,
                own: own.clone(),
                monitor: shared.liveness.monitor("the start", Some(name)),
                shared: Arc::clone(&shared),
                on_joined: on_joined.clone(),
                tried: Some(tried.clone()),
                stop: stop_joining.clone(),
                health,
            };
            joining.spawn(shared.liveness.watch(format!("the start of {name}"), joiner.run()));
        }
        drop(tried);
        for _ in 0..queue_health.len() {
            if tries.recv().await.unwrap_or(true) {
                break;
            }
        }
        let heartbeat_stop = heartbeat_stop.drop_guard();
        Ok(Self {
            shared,
            queue_workers,
            served: receiver,
            queue_health,
            joining,
            stop_joining,
            heartbeat,
            heartbeat_stop,
        })
    }

    /// Returns the queues that it should serve, whether or not it has joined them.
    pub(crate) fn queues(&self) -> Vec<Queue> {
        self.queue_health.iter().map(|(queue, _)| queue.clone()).collect()
    }

    /// Returns the next queue that it has joined, for the task that maintains it; `None` when there will be no more.
    pub(crate) async fn served(&mut self) -> Option<Served> {
        self.served.recv().await
    }

    /// Returns the access to Redis that this worker uses.
    pub(crate) fn broker(&self) -> &Broker {
        &self.shared.broker
    }

    /// Returns a function that estimates how long ago an instant by the clock of Redis was. For metrics only.
    pub(crate) fn age(&self) -> Arc<dyn Fn(Timestamp) -> Duration + Send + Sync> {
        let clock = Arc::clone(&self.shared.clock);
        Arc::new(move |then| clock.since(then.as_ms(), Instant::now()))
    }

    /// Returns how many attempts it may start, if that is limited.
    pub(crate) fn quota(&self) -> Option<Arc<Quota>> {
        self.shared.quota.clone()
    }

    /// Returns what people have asked of it.
    pub(crate) fn duty(&self) -> Arc<Duty> {
        Arc::clone(&self.shared.duty)
    }

    /// Returns the signs of life of its loops.
    pub(crate) fn liveness(&self) -> &Liveness {
        &self.shared.liveness
    }

    /// Returns what is known about each queue's Redis.
    pub(crate) fn queue_health(&self) -> Vec<(Queue, Arc<QueueHealth>)> {
        self.queue_health.clone()
    }

    /// Stops in order. Reading ends first, and unstarted jobs go back at once. Running ones have until the drain timeout
    /// (or `hurry`), then they are cancelled and given back. Queues settle their last outcomes at the same time. Returns when
    /// Redis knows every outcome, or does not answer.
    pub(crate) async fn stop(mut self, hurry: CancellationToken) {
        self.stop_joining.cancel();
        while self.joining.join_next().await.is_some() {}
        let mut queue_workers = self.queue_workers.take();
        // While Redis is silent, each reader needs a while to end, and handlers run meanwhile.
        let deadline = Instant::now() + self.shared.config.drain_timeout;
        join_all(queue_workers.iter_mut().map(|queue_worker| queue_worker.stop(deadline, &hurry))).await;
        let finishing =
            queue_workers.into_iter().map(|queue_worker| queue_worker.finish(&self.shared.consumer));
        join_all(finishing).await;
        drop(self.heartbeat_stop);
        let heartbeat = self.heartbeat;
        // The thread ends within one command's deadline. The runtime has already reported a panic in it.
        let ended = tokio::task::spawn_blocking(move || heartbeat.join().is_ok()).await;
        if !ended.unwrap_or(false) {
            tracing::error!("the heartbeat thread panicked");
        }
        let Shared { broker, consumer, events, .. } = &*self.shared;
        // If Redis is away, it forgets the worker by itself.
        if let Ok(Err(error)) = tokio::time::timeout(LEAVES_WITHIN, broker.forget(consumer)).await {
            events.redis_error(error.kind(), &error);
        }
    }
}

/// Starts the heartbeat of a worker that has not joined anything yet.
fn heartbeat(
    shared: &Arc<Shared>,
    queues: watch::Receiver<JoinedQueues>,
    stopping: &CancellationToken,
    stop: &CancellationToken,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    let heartbeat = Heartbeat {
        broker: shared.broker.clone(),
        consumer: shared.consumer.clone(),
        queues,
        clock: Arc::clone(&shared.clock),
        events: shared.events.clone(),
        describe: describe_worker(&shared.registry, Arc::clone(&shared.duty), stopping.clone()),
        duty: Arc::clone(&shared.duty),
        started: Instant::now(),
        monitor: shared.liveness.monitor("the heartbeat", None),
        liveness: shared.liveness.clone(),
        stop: stop.clone(),
    };
    heartbeat.start()
}

fn describe_worker(registry: &Registry, duty: Arc<Duty>, stopping: CancellationToken) -> Box<DescribeWorker> {
    let all = registry.types();
    let types: Vec<_> = all.iter().take(MAX_TYPES).map(ToString::to_string).collect();
    let left_out = all.len() - types.len();
    let config = registry.config_digest.clone();
    let pools_down = registry.pools_down.clone();
    Box::new(move |queues| {
        let mut names: Vec<_> = queues.iter().map(|joined| joined.queue.name().as_str()).collect();
        names.sort_unstable();
        let slots: usize = queues.iter().map(|joined| joined.slots).sum();
        let running: usize = queues.iter().map(|joined| joined.dispatcher.running()).sum();
        let is_busy = queues.iter().any(|joined| !joined.held_leases.is_empty());
        let state = if stopping.is_cancelled() { "draining" } else { duty.state(is_busy) };
        let mut facts = vec![
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("queues", names.join(",")),
            ("types", types.join(",")),
            ("slots", slots.to_string()),
            ("running", running.to_string()),
            ("state", state.to_owned()),
            ("pid", std::process::id().to_string()),
            (CAPABILITIES, CAN_DRAIN.to_owned()),
        ];
        facts.extend(config.clone().map(|digest| ("config", digest)));
        facts.extend(pools_down.as_ref().map(|pools_down| PoolDown::fact(pools_down().into_iter())));
        if left_out > 0 {
            facts.push(("types_left_out", left_out.to_string()));
        }
        facts
    })
}
