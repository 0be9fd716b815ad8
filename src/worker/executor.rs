//! Stage 3: runs one delivery under its timeout and cancellation, and says how it ended. It never writes to Redis, but
//! for the question whether an attempt that has a history may start.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::dispatcher::Delivery;
use super::handler::JobContext;
use super::patience::Patience;
use super::registry::{Registered, Registry};
use super::settler::Finished;
use crate::broker::{Begun, Queue};
use crate::event::{Event, Events};
use crate::job::{ConsumerName, Failure, FailureKind, Job, Outcome, Retry, Tracking};

/// The lease outlives an attempt's deadline by this much, for its outcome to be settled.
const SETTLE_MARGIN: Duration = Duration::from_secs(10);

/// Runs deliveries. One per queue, shared by its slots.
pub(crate) struct Executor {
    pub(crate) queue: Queue,
    pub(crate) consumer: ConsumerName,
    pub(crate) registry: Arc<Registry>,
    pub(crate) events: Events,
    pub(crate) clock: Arc<super::clock::ServerClock>,
}

impl Executor {
    /// Runs one delivery to its end.
    pub(crate) async fn run(&self, delivery: Delivery) -> Finished {
        let Some(registered) = self.registry.get(&delivery.job.job_type).cloned() else {
            return Finished::new(delivery, Outcome::Unroutable, Duration::ZERO);
        };
        let tracked = is_tracked(&delivery.job, &registered);
        if delivery.flight.cancellation.is_cancelled() {
            return Finished::new(delivery, Outcome::Interrupted, Duration::ZERO);
        }
        if tracked || delivery.job.not_before.is_some() || delivery.job.expires_at.is_some() {
            match self.begin(&delivery, tracked).await {
                Begun::Start => {}
                Begun::Stale => return Finished::new(delivery, Outcome::Interrupted, Duration::ZERO),
                // Giving it back finds the job done, and ends it.
                Begun::DoneAlready => return Finished::new(delivery, Outcome::Interrupted, Duration::ZERO),
                Begun::Expired => return Finished::new(delivery, Outcome::Expired, Duration::ZERO),
                Begun::NotDue(wait) => return Finished::new(delivery, Outcome::NotDue(wait), Duration::ZERO),
            }
        }
        let started = Instant::now();
        let wait = self.clock.since(delivery.job.entry.ms);
        self.events.tell(&Event::Started {
            queue: self.queue.name(),
            job_type: &delivery.job.job_type,
            wait,
        });
        let outcome = self.attempt(&delivery, &registered, started).await;
        let mut finished = Finished::new(delivery, outcome, started.elapsed());
        finished.ran = true;
        finished.tracked = tracked;
        finished
    }

    /// Asks until there is an answer: without one the attempt must not start.
    async fn begin(&self, delivery: &Delivery, tracked: bool) -> Begun {
        let mut patience = Patience::new();
        loop {
            match self.queue.begin(&self.consumer, &delivery.job, tracked).await {
                Ok(begun) => return begun,
                Err(error) => {
                    self.events.tell(&Event::RedisError { kind: error.kind(), error: &error.to_string() });
                    tokio::select! {
                        () = patience.wait(&error) => {}
                        () = delivery.flight.cancellation.cancelled() => return Begun::Stale,
                    }
                }
            }
        }
    }

    async fn attempt(&self, delivery: &Delivery, registered: &Registered, started: Instant) -> Outcome {
        let timeout = delivery.job.timeout.unwrap_or(registered.policy.timeout);
        let deadline = started + timeout;
        delivery.flight.renew_until(deadline + registered.grace + SETTLE_MARGIN);
        let cancellation = &delivery.flight.cancellation;
        let context = JobContext {
            job: delivery.job.clone(),
            queue: self.queue.name().clone(),
            envelope: delivery.envelope.clone(),
            deadline,
            cancellation: cancellation.clone(),
        };
        let mut running = registered.run(context);
        let cut_short = tokio::select! {
            biased;
            outcome = &mut running => return match outcome {
                // It may have ended because it was told to, before we looked.
                Outcome::Failed(_) if cancellation.is_cancelled() => Outcome::Interrupted,
                other => other,
            },
            () = tokio::time::sleep_until(deadline.into()) => {
                let error = format!("the handler ran longer than its timeout of {timeout:?}");
                cancellation.cancel();
                Outcome::Failed(Failure::new(FailureKind::Timeout, error, Retry::Policy))
            }
            () = cancellation.cancelled() => Outcome::Interrupted,
        };
        // A success in the time of grace is a success; anything else is the consequence of our cutting it short.
        match tokio::time::timeout(registered.grace, running).await {
            Ok(Outcome::Done(result)) => Outcome::Done(result),
            Ok(_) | Err(_) => cut_short,
        }
    }
}

/// Whether a job keeps a record even if it succeeds now.
fn is_tracked(job: &Job, registered: &Registered) -> bool {
    let tracking = job.tracking.unwrap_or(registered.policy.tracking);
    tracking == Tracking::All || job.is_repeated() || job.replayed || job.id.is_own()
}
