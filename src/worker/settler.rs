//! Stage 4: turns outcomes into what Redis must do. Plain successes go in batches of one round trip; everything else is
//! one script each, many at a time. An outcome is kept, and sent again, until Redis has taken it: the fence in the
//! script decides whether it still counts.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;

use super::dispatcher::Delivery;
use super::flight::{Flights, Held};
use super::patience::Patience;
use crate::broker::{Applied, Entry, Error, Keep, Queue, Ran, Taken};
use crate::event::{Ending, Event, Events};
use crate::job::{ConsumerName, EntryId, Failure, Lane, Outcome, Policies, Routing, Settlement, settle};

/// The most successes that one round trip settles.
const BATCH: usize = 500;

/// So many batches may be under way at once.
const BATCHES_UNDER_WAY: usize = 4;

/// A delivery that was dealt with, and how that ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) delivery: Delivery,
    pub(crate) outcome: Outcome,
    pub(crate) elapsed: Duration,
    /// Whether a handler ran.
    pub(crate) ran: bool,
    /// Whether the job's success leaves a record.
    pub(crate) tracked: bool,
}

impl Finished {
    pub(crate) fn new(delivery: Delivery, outcome: Outcome, elapsed: Duration) -> Self {
        Self { delivery, outcome, elapsed, ran: false, tracked: false }
    }

    fn is_plain_success(&self) -> bool {
        matches!(self.outcome, Outcome::Done(_)) && !self.tracked
    }
}

/// What the settler gets to deal with.
#[derive(Debug)]
pub(crate) enum Work {
    /// A delivery that was dealt with.
    Finished(Box<Finished>),
    /// An entry that is no job, and why.
    Malformed(Entry, String),
}

/// Settles outcomes. One per queue.
pub(crate) struct Settler {
    pub(crate) queue: Queue,
    pub(crate) consumer: ConsumerName,
    pub(crate) flights: Arc<Flights>,
    pub(crate) policies: Arc<Policies>,
    pub(crate) routing: Routing,
    pub(crate) retention: Duration,
    pub(crate) events: Events,
}

impl Settler {
    /// Settles until the channel is closed and empty. A few batches are under way at once, so that Redis need not wait
    /// while the next one is put together.
    pub(crate) async fn run(self, mut work: mpsc::Receiver<Work>) {
        let mut under_way = FuturesUnordered::new();
        let mut open = true;
        while open || !under_way.is_empty() {
            tokio::select! {
                biased;
                Some(()) = under_way.next() => {}
                batch = self.next_batch(&mut work), if open && under_way.len() < BATCHES_UNDER_WAY => match batch {
                    Some(batch) => under_way.push(self.settle(batch)),
                    None => open = false,
                },
            }
        }
    }

    /// The next outcomes; `None` when there will be none.
    async fn next_batch(&self, work: &mut mpsc::Receiver<Work>) -> Option<Vec<Work>> {
        // Only this first step waits, and it may be dropped without a loss.
        let mut batch = vec![work.recv().await?];
        while batch.len() < BATCH
            && let Ok(more) = work.try_recv()
        {
            batch.push(more);
        }
        Some(batch)
    }

    async fn settle(&self, batch: Vec<Work>) {
        let mut plain: [Vec<Finished>; 3] = Default::default();
        let mut others = FuturesUnordered::new();
        let mut held: Vec<Held> = Vec::with_capacity(batch.len());
        for work in batch {
            match work {
                Work::Malformed(entry, why) => {
                    held.push((entry.lane, entry.id));
                    others.push(futures_util::future::Either::Left(self.bury_malformed(entry, why)));
                }
                Work::Finished(finished) => {
                    held.push(finished.delivery.held());
                    if finished.is_plain_success() {
                        plain[finished.delivery.job.lane as usize].push(*finished);
                    } else {
                        others.push(futures_util::future::Either::Right(self.settle_one(finished)));
                    }
                }
            }
        }
        let successes = futures_util::future::join_all(
            plain.iter().filter(|lane| !lane.is_empty()).map(|finished| self.acknowledge(finished)),
        );
        futures_util::join!(successes, async { while others.next().await.is_some() {} });
        self.flights.remove(held.iter());
    }

    /// Deletes a lane's plain successes in one round trip.
    async fn acknowledge(&self, finished: &[Finished]) {
        let lane = finished[0].delivery.job.lane;
        let ids: Vec<EntryId> = finished.iter().map(|finished| finished.delivery.job.entry).collect();
        let acked = self.insist(|| self.queue.acknowledge(self.queue.link(), lane, &ids)).await;
        for finished in finished {
            self.tell_ending(finished, Ending::Succeeded);
        }
        if acked < ids.len() as u64 {
            // Some of them were taken over meanwhile. Which ones, only their scripts can say.
            for finished in finished {
                if self.complete_late(finished).await == Applied::Late {
                    tracing::info!(job = %finished.delivery.job.id, "a late success cancelled the retry");
                }
            }
            for _ in acked..ids.len() as u64 {
                self.events.tell(&Event::Fenced { queue: self.queue.name() });
            }
        }
    }

    async fn complete_late(&self, finished: &Finished) -> Applied {
        self.apply(finished, &Settlement::Ack).await
    }

    async fn settle_one(&self, finished: Box<Finished>) {
        let job = &finished.delivery.job;
        let policy = self.policies.of(&job.job_type);
        let settlement = settle(job, policy, self.routing, &finished.outcome, rand::random());
        if let Outcome::Failed(Failure { kind, error, .. }) = &finished.outcome {
            let queue = self.queue.name();
            let (job_type, job) = (&job.job_type, &job.id);
            self.events.tell(&Event::Failed { queue, job_type, job, kind: *kind, error });
        }
        match self.apply(&finished, &settlement).await {
            Applied::Stale => self.events.tell(&Event::Fenced { queue: self.queue.name() }),
            Applied::Moved | Applied::Late => self.tell_ending(&finished, ending(&settlement)),
        }
    }

    async fn apply(&self, finished: &Finished, settlement: &Settlement) -> Applied {
        let taken = Taken { job: &finished.delivery.job, envelope: &finished.delivery.envelope };
        let result = match &finished.outcome {
            Outcome::Done(result) => result.as_ref(),
            _ => None,
        };
        let keep = Keep { record: finished.tracked, retention: self.retention, result };
        let ran = Ran {
            elapsed: finished.elapsed,
            outcome: word(&finished.outcome),
            worker: self.consumer.as_str(),
        };
        self.insist(|| self.queue.apply(&self.consumer, taken, settlement, keep, &ran)).await
    }

    async fn bury_malformed(&self, entry: Entry, why: String) {
        let ran = Ran { elapsed: Duration::ZERO, outcome: "malformed", worker: self.consumer.as_str() };
        let buried = self.insist(|| self.queue.bury_malformed(&self.consumer, &entry, &why, &ran)).await;
        if let Some(job) = buried {
            let ending = Ending::Dead(crate::job::DeadReason::Malformed);
            let queue = self.queue.name();
            self.events.tell(&Event::Finished {
                queue,
                job_type: None,
                job: &job,
                ending,
                elapsed: Duration::ZERO,
            });
        }
    }

    /// Sends until Redis has answered. What a person must mend is retried too: nothing is given up here.
    async fn insist<T, F: Future<Output = Result<T, Error>>>(&self, send: impl Fn() -> F) -> T {
        let mut patience = Patience::new();
        loop {
            match send().await {
                Ok(answer) => return answer,
                Err(error) => {
                    self.events.tell(&Event::RedisError { kind: error.kind(), error: &error.to_string() });
                    patience.wait(&error).await;
                }
            }
        }
    }

    fn tell_ending(&self, finished: &Finished, ending: Ending) {
        let job = &finished.delivery.job;
        self.events.tell(&Event::Finished {
            queue: self.queue.name(),
            job_type: Some(&job.job_type),
            job: &job.id,
            ending,
            elapsed: finished.elapsed,
        });
    }
}

fn ending(settlement: &Settlement) -> Ending {
    match settlement {
        Settlement::Ack => Ending::Succeeded,
        Settlement::Release => Ending::Interrupted,
        Settlement::Defer(to) if to.error.is_some() => Ending::Retried,
        Settlement::Defer(_) => Ending::Snoozed,
        Settlement::Bury(burial) => Ending::Dead(burial.reason),
    }
}

/// How an attempt ended, in one word, for the ring of attempts.
fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Done(_) => "done",
        Outcome::Snoozed(_) => "snoozed",
        Outcome::Interrupted => "interrupted",
        Outcome::NotDue(_) => "not_due",
        Outcome::Unroutable => "unroutable",
        Outcome::Expired => "expired",
        Outcome::Failed(failure) => failure.kind.as_str(),
        Outcome::Lost => "lost",
        Outcome::Malformed(_) => "malformed",
    }
}

/// The lanes in the order of the batches.
const _: () = assert!(Lane::High as usize == 0 && Lane::Normal as usize == 1 && Lane::Low as usize == 2);
