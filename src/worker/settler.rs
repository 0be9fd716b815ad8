//! Stage 4: turns outcomes into what Redis must do. Plain successes go in batches of one round trip; everything else is
//! one script each, many at a time. An outcome is kept, and sent again, until Redis has taken it: the fence in the
//! script decides whether it still counts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::clock::ServerClock;
use super::delivery::{Finished, Work};
use super::flight::{Flights, Held};
use super::outbox::{Outbox, WORTH_A_TRIP};
use super::patience::Patience;
use crate::broker::{Applied, Entry, Error, Keep, Queue, Ran, Taken};
use crate::event::{Event, Events, Finished as Told};
use crate::job::{
    ConsumerName, EntryId, Failure, Lane, Outcome, Policies, Routing, Settlement, Tracking, settle,
};
use crate::vital::Line;

/// The most successes that one round trip settles.
const BATCH: usize = 500;

/// So many batches may be under way at once, so that Redis need not wait while the next one is put together.
const BATCHES_UNDER_WAY: usize = 4;

/// The receipts of so many settlements are forgotten in one command.
const RECEIPTS: usize = 100;

/// So many other settlements are under way at once, each a script.
const OTHERS_UNDER_WAY: usize = 500;

/// Settles outcomes. One per queue.
pub(crate) struct Settler {
    pub(crate) queue: Queue,
    pub(crate) consumer: ConsumerName,
    pub(crate) flights: Arc<Flights>,
    pub(crate) policies: Arc<Policies>,
    pub(crate) routing: Routing,
    /// Which jobs leave a record, where neither they nor their type say.
    pub(crate) tracking: Tracking,
    pub(crate) retention: Duration,
    pub(crate) events: Events,
    pub(crate) line: Line,
    pub(crate) clock: Arc<ServerClock>,
}

impl Settler {
    /// Settles until the outbox is closed and empty. What Redis refuses for reasons of its own, such as a record of
    /// another type, is sent again and again beside the rest, and holds up nothing but itself.
    pub(crate) async fn run(self, outbox: Arc<Outbox>) {
        let (mut batches, mut others) = (FuturesUnordered::new(), FuturesUnordered::new());
        let (mut heard, mut forgetting) = (Vec::new(), FuturesUnordered::new());
        let mut open = true;
        while open || !batches.is_empty() || !others.is_empty() {
            let least = if batches.is_empty() { 1 } else { WORTH_A_TRIP };
            tokio::select! {
                biased;
                Some(()) = batches.next() => {}
                Some(held) = others.next() => {
                    self.flights.remove(std::iter::once(&held));
                    heard.push(held);
                    if heard.len() >= RECEIPTS || others.is_empty() {
                        forgetting.push(self.forget_receipts(std::mem::take(&mut heard)));
                    }
                }
                Some(()) = forgetting.next() => {}
                work = outbox.take(least), if open && batches.len() < BATCHES_UNDER_WAY && others.len() < OTHERS_UNDER_WAY => {
                    let Some(work) = work else {
                        open = false;
                        continue;
                    };
                    let (plain, rest) = sort(work);
                    batches.extend(plain.map(|batch| self.settle_plain(batch)));
                    others.extend(rest.into_iter().map(|work| self.settle_other(work)));
                }
            }
        }
    }

    /// The answers of these settlements have been heard. What is not forgotten goes with the consumer.
    async fn forget_receipts(&self, heard: Vec<Held>) {
        if let Err(error) = self.queue.forget_receipts(self.queue.link(), &self.consumer, &heard).await {
            tracing::debug!(%error, "receipts of settlements stay for now");
        }
    }

    /// Deletes plain successes of one lane in one round trip.
    async fn settle_plain(&self, finished: Vec<Finished>) {
        self.acknowledge(&finished).await;
        let held: Vec<Held> = finished.iter().map(|finished| finished.delivery.held()).collect();
        self.flights.remove(held.iter());
    }

    async fn settle_other(&self, work: Work) -> Held {
        match work {
            Work::Malformed(entry, why) => {
                let held = (entry.lane, entry.id);
                self.bury_malformed(entry, why).await;
                held
            }
            Work::Finished(finished) => {
                let held = finished.delivery.held();
                self.settle_one(&finished).await;
                held
            }
        }
    }

    /// Deletes a lane's plain successes in one round trip.
    async fn acknowledge(&self, finished: &[Finished]) {
        let lane = finished[0].delivery.job.lane;
        let ids: Vec<EntryId> = finished.iter().map(|finished| finished.delivery.job.entry).collect();
        let acked = self.insist(|| self.queue.acknowledge(self.queue.link(), lane, &ids)).await;
        let now = Instant::now();
        for finished in finished {
            self.tell_ending(finished, &Settlement::Ack, now);
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

    async fn settle_one(&self, finished: &Finished) {
        let job = &finished.delivery.job;
        let policy = self.policies.of(&job.job_type);
        let settlement = settle(job, policy, self.routing, &finished.outcome, rand::random());
        if let Outcome::Failed(Failure { kind, error, .. }) = &finished.outcome {
            let queue = self.queue.name();
            let (job_type, job) = (&job.job_type, &job.id);
            self.events.tell(&Event::Failed { queue, job_type, job, kind: *kind, error });
        }
        let told = match self.apply(finished, &settlement).await {
            Applied::Stale | Applied::Untraced => {
                return self.events.tell(&Event::Fenced { queue: self.queue.name() });
            }
            Applied::Moved => settlement,
            Applied::Late if settlement == Settlement::Ack => settlement,
            // The success was told when it came.
            Applied::Late => return,
            Applied::Cancelled => Settlement::Cancel("cancelled".to_owned()),
        };
        self.tell_ending(finished, &told, Instant::now());
    }

    async fn apply(&self, finished: &Finished, settlement: &Settlement) -> Applied {
        let delivery = &finished.delivery;
        let taken = Taken { job: &delivery.job, envelope: &delivery.envelope, trace: delivery.trace() };
        let result = match &finished.outcome {
            Outcome::Done(result) => result.as_ref(),
            Outcome::Snoozed(_)
            | Outcome::Interrupted
            | Outcome::Cancelled
            | Outcome::Dropped(_)
            | Outcome::NotDue(_)
            | Outcome::Unroutable
            | Outcome::Expired
            | Outcome::Failed(_)
            | Outcome::Lost
            | Outcome::Malformed(_) => None,
        };
        let tracking = taken.job.tracking(self.policies.of(&taken.job.job_type), self.tracking);
        let keep = Keep { record: finished.tracked, tracking, retention: self.retention, result };
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
            self.events.tell(&Event::Finished(Told::malformed(self.queue.name(), &job, &why)));
        }
    }

    /// Sends until Redis has answered. What a person must mend is retried too: nothing is given up here.
    async fn insist<T, F: Future<Output = Result<T, Error>>>(&self, send: impl Fn() -> F) -> T {
        let mut patience = Patience::new();
        loop {
            match self.line.ask(Duration::ZERO, send()).await {
                Ok(answer) => return answer,
                Err(error) => {
                    self.events.redis_error(error.kind(), &error);
                    patience.wait(&error).await;
                }
            }
        }
    }

    fn tell_ending(&self, finished: &Finished, settlement: &Settlement, now: Instant) {
        let job = &finished.delivery.job;
        let age = self.clock.since(job.created.as_ms(), now);
        let told = Told::new(self.queue.name(), job, settlement, (finished.elapsed, age));
        self.events.tell(&Event::Finished(told));
    }
}

/// Parts plain successes, in batches of one lane each, from everything else.
fn sort(work: Vec<Work>) -> (impl Iterator<Item = Vec<Finished>>, Vec<Work>) {
    let (mut plain, mut rest) = (<[Vec<Finished>; 3]>::default(), Vec::new());
    for work in work {
        match work {
            Work::Finished(finished) if finished.is_plain_success() => {
                plain[finished.delivery.job.lane as usize].push(finished);
            }
            Work::Finished(_) | Work::Malformed(..) => rest.push(work),
        }
    }
    (plain.into_iter().flat_map(in_batches), rest)
}

fn in_batches(mut lane: Vec<Finished>) -> impl Iterator<Item = Vec<Finished>> {
    std::iter::from_fn(move || {
        let rest = lane.split_off(lane.len().min(BATCH));
        let batch = std::mem::replace(&mut lane, rest);
        (!batch.is_empty()).then_some(batch)
    })
}

/// How an attempt ended, in one word, for the ring of attempts.
fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Done(_) => "done",
        Outcome::Snoozed(_) => "snoozed",
        Outcome::Interrupted => "interrupted",
        Outcome::Cancelled => "cancelled",
        Outcome::Dropped(_) => "dropped",
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
