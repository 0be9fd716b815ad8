//! Joins one queue, trying again until it succeeds, whatever happens to the others. Then its queue worker starts working.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::QueueConfig;
use super::backoff::RedisBackoff;
use super::joined_queue::JoinedQueues;
use super::queue_worker::{QueueWorker, Shared};
use crate::broker::mutex::lock;
use crate::broker::{Error, Joined, Queue};
use crate::event::{Event, QueueEvent, RedisEvent};
use crate::health::{Monitor, QueueHealth};

/// Joins one queue.
pub(super) struct Joiner {
    pub(super) shared: Arc<Shared>,
    pub(super) queue: Queue,
    pub(super) own: QueueConfig,
    pub(super) health: Arc<QueueHealth>,
    pub(super) monitor: Monitor,
    pub(super) on_joined: OnJoined,
    /// Receives whether the first try succeeded.
    pub(super) tried: Option<mpsc::Sender<bool>>,
    pub(super) stop: CancellationToken,
}

/// Where a queue goes once it has been joined. Clones share it.
#[derive(Clone)]
pub(super) struct OnJoined {
    pub(super) queue_workers: Arc<QueueWorkers>,
    pub(super) queues: watch::Sender<JoinedQueues>,
    pub(super) served: mpsc::Sender<Served>,
}

/// A queue that the worker serves, for the task that maintains it.
pub(crate) struct Served {
    pub(crate) queue: Queue,
    pub(crate) lease: Duration,
    pub(crate) health: Arc<QueueHealth>,
}

/// The queue workers that are working.
#[derive(Default)]
pub(super) struct QueueWorkers(Mutex<Vec<QueueWorker>>);

impl QueueWorkers {
    fn add(&self, queue_worker: QueueWorker) {
        lock(&self.0).push(queue_worker);
    }

    /// Hands them over to be stopped.
    pub(super) fn take(&self) -> Vec<QueueWorker> {
        std::mem::take(&mut lock(&self.0))
    }
}

impl Joiner {
    /// Joins the queue, or is stopped. No error ends it.
    pub(super) async fn run(mut self) {
        let mut backoff = RedisBackoff::new();
        loop {
            let error = tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                joined = self.join() => match joined {
                    // From here on, nothing is awaited: either it works and is known to work, or it does not.
                    Ok(queue_worker) => return self.begin(queue_worker),
                    Err(error) => error,
                },
            };
            self.report_error(&error);
            self.report_first_try(false);
            let Some(()) = self.stop.run_until_cancelled(backoff.wait(&error)).await else { return };
        }
    }

    async fn join(&self) -> Result<QueueWorker, Error> {
        let Shared { config, events, clock, registry, .. } = &*self.shared;
        let queue = &self.queue;
        let joining = queue.join_limited(config.lease, self.own.max_depth);
        let joined = self.monitor.ask(Duration::ZERO, joining).await?;
        // Reported before the first job can run, so that no metric shows jobs done by a Redis that is away.
        events.emit(&Event::Redis(RedisEvent::Contact { alive: true }));
        // Set before the first job can run, so that no job of a backlog looks as if it had not waited.
        clock.update(queue.clock().await?);
        warn_of_differences(queue, joined, config.lease);
        queue.doubt_known_types(&registry.types()).await?;
        let own = (&self.own, &self.health);
        let queue_worker = QueueWorker::start(&self.shared, queue.clone(), joined.lease, own).await?;
        let longest_timeout = registry.longest_timeout();
        events.of_queue(queue.name(), QueueEvent::Joined { lease: joined.lease, longest_timeout });
        Ok(queue_worker)
    }

    /// Starts the queue worker, and makes it known.
    fn begin(mut self, mut queue_worker: QueueWorker) {
        let OnJoined { queue_workers, queues, served } = &self.on_joined;
        self.health.set_in_touch(true);
        self.health.clear_refusal();
        self.shared.events.of_queue(self.queue.name(), QueueEvent::Served);
        let joined = Arc::new(queue_worker.joined_queue(&self.shared.liveness));
        queues.send_modify(|queues| queues.push(joined));
        let (queue, lease) = (self.queue.clone(), queue_worker.lease);
        // There is room for each queue. The task that maintains queues may have stopped.
        served.try_send(Served { queue, lease, health: Arc::clone(&self.health) }).ok();
        queue_worker.read(&self.shared.liveness);
        queue_workers.add(queue_worker);
        self.report_first_try(true);
    }

    fn report_first_try(&mut self, joined: bool) {
        if let Some(tried) = self.tried.take() {
            // There is room for each queue.
            tried.try_send(joined).ok();
        }
    }

    fn report_error(&self, error: &Error) {
        let events = &self.shared.events;
        events.redis_error(error.kind(), error);
        if error.is_transient() {
            tracing::debug!(queue = %self.queue.name(), %error, "a queue could not be joined yet");
            return;
        }
        let why = self.queue.with_keys(error);
        if self.health.set_refused(why.clone()) {
            events.of_queue(self.queue.name(), QueueEvent::Unserved { why: &why });
        }
    }
}

fn warn_of_differences(queue: &Queue, joined: Joined, lease: Duration) {
    if joined.lease != lease {
        tracing::warn!(
            queue = %queue.name(), configured = ?lease, adopted = ?joined.lease,
            "the fleet uses another lease, which this worker adopts; to change it, stop every worker of the queue first"
        );
    }
    if joined.wire > u64::from(crate::broker::WIRE_VERSION) {
        tracing::warn!(queue = %queue.name(), wire = joined.wire, "a newer version of streamfleet serves this queue");
    }
}
