//! Stage 4: turns outcomes into what Redis must do. Plain successes go in batches of one round trip. Everything else
//! takes one script each, many at a time. An outcome is kept, and sent again, until Redis has accepted it: the fence in
//! the script decides whether it still counts. What Redis refuses for its own reasons, such as a record of another
//! type, waits [aside](super::aside), and holds up nothing else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::aside::{Aside, Task};
use super::backoff::RedisBackoff;
use super::clock::ServerClock;
use super::delivery::{FinishedAttempt, SettlerInput};
use super::dispatcher::Dispatcher;
use super::held_leases::HeldLeases;
use super::lease::EntryKey;
use super::outbox::{MIN_BATCH, Outbox};
use crate::broker::{Applied, AttemptSummary, Entry, Error, KeepRecord, Queue, TakenJob};
use crate::event::{Event, Events, Finished};
use crate::health::Monitor;
use crate::job::{
    ConsumerName, EntryId, Failure, Lane, Outcome, Policies, Routing, Settlement, Tracking, settle,
};
use crate::sabotage::{self, Sabotage};

/// The most successes that one round trip settles.
const MAX_BATCH: usize = 500;

/// The most batches in flight, so that Redis need not wait while the next one is put together.
const BATCHES_UNDER_WAY: usize = 4;

/// The number of settlements whose receipts are forgotten in one command.
const RECEIPTS: usize = 100;

/// The most other settlements in flight, each of them one script.
const OTHERS_UNDER_WAY: usize = 500;

/// Settles outcomes. There is one per queue.
pub(crate) struct Settler {
    pub(crate) queue: Queue,
    pub(crate) consumer: ConsumerName,
    pub(crate) held_leases: Arc<HeldLeases>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) policies: Arc<Policies>,
    pub(crate) routing: Routing,
    /// Which jobs leave a record if neither they nor their type say.
    pub(crate) tracking: Tracking,
    pub(crate) retention: Duration,
    pub(crate) lease: Duration,
    pub(crate) events: Events,
    pub(crate) monitor: Monitor,
    pub(crate) clock: Arc<ServerClock>,
}

/// Work that Redis refuses for its own reasons, and why.
type SettleResult = Result<(), (SettlerInput, Error)>;

impl Settler {
    /// Settles until the outbox is closed and empty. What waits aside then is tried once more, and left to its lease.
    pub(crate) async fn run(self, outbox: Arc<Outbox>) {
        let (mut batches, mut others) = (FuturesUnordered::new(), FuturesUnordered::new());
        let (mut answered, mut forgetting) = (Vec::new(), FuturesUnordered::new());
        let mut aside = Aside::default();
        let mut open = true;
        while open || !batches.is_empty() || !others.is_empty() || !aside.is_empty() {
            let least = if batches.is_empty() { 1 } else { MIN_BATCH };
            let has_room = others.len() < OTHERS_UNDER_WAY && !aside.is_full();
            tokio::select! {
                biased;
                Some(settled) = batches.next() => {
                    let settled: Vec<SettlerInput> = settled;
                    others.extend(settled.into_iter().map(|work| self.settle_other(Task::new(work))));
                }
                Some((held, refused)) = others.next() => {
                    match refused {
                        Some((task, error)) => self.set_aside(&mut aside, task, &error),
                        None => {
                            self.held_leases.remove(std::iter::once(&held));
                            answered.push(held);
                        }
                    }
                    if answered.len() >= RECEIPTS || (others.is_empty() && !answered.is_empty()) {
                        forgetting.push(self.forget_receipts(std::mem::take(&mut answered)));
                    }
                }
                Some(()) = forgetting.next() => {}
                Some(task) = aside.next() => others.extend(self.requeue(task).map(|task| self.settle_other(task))),
                work = outbox.take(least), if open && batches.len() < BATCHES_UNDER_WAY && has_room => {
                    let Some(work) = work else {
                        open = false;
                        aside.close();
                        continue;
                    };
                    let (plain, rest) = sort(work);
                    batches.extend(plain.map(|batch| self.settle_plain(batch)));
                    for work in rest {
                        if let SettlerInput::NotStarted(_, error) = &work {
                            let error = error.clone();
                            self.set_aside(&mut aside, Task::new(work), &error);
                        } else {
                            others.push(self.settle_other(Task::new(work)));
                        }
                    }
                }
            }
        }
    }

    /// Forgets the receipts of settlements whose answers have arrived. Asks until Redis has done so: what is left goes
    /// only with the consumer, and a worker may live for months.
    async fn forget_receipts(&self, answered: Vec<EntryKey>) {
        let mut backoff = RedisBackoff::new();
        while let Err(error) = self.queue.forget_receipts(self.queue.link(), &self.consumer, &answered).await
        {
            if !error.is_transient() {
                tracing::debug!(%error, "failed to delete receipts of settlements; they stay until the worker stops");
                return;
            }
            backoff.wait(&error).await;
        }
    }

    /// Sets aside what Redis refuses, and reports so the first time.
    fn set_aside(&self, aside: &mut Aside, task: Task, error: &Error) {
        let job = task.job();
        if task.refused == 0 {
            let keys = self.queue.keys_of(&job);
            self.events.emit(&Event::SetAside {
                queue: self.queue.name(),
                job: &job,
                keys: &keys,
                error: &error.to_string(),
            });
        }
        if aside.is_closed() {
            tracing::warn!(queue = %self.queue.name(), %job, %error, "a job was not settled before the worker stopped; it is taken over when its lease expires");
            return self.held_leases.remove(std::iter::once(&task.key()));
        }
        aside.push(task);
    }

    /// Offers a delivery that could not begin to the slots again. Returns what must be settled instead: other work, and
    /// deliveries that come too late.
    fn requeue(&self, task: Task) -> Option<Task> {
        let Task { work, refused } = task;
        let work = match work {
            SettlerInput::NotStarted(delivery, _) => {
                let not_started = self.dispatcher.requeue(delivery).err()?;
                SettlerInput::Finished(FinishedAttempt::not_run(not_started, Outcome::Interrupted))
            }
            work @ (SettlerInput::Finished(_) | SettlerInput::Settled(..) | SettlerInput::Malformed(..)) => {
                work
            }
        };
        Some(Task { work, refused })
    }

    /// Settles one task. Returns which entry it was about, and the task and the error if Redis refused.
    async fn settle_other(&self, task: Task) -> (EntryKey, Option<(Task, Error)>) {
        let (held, refused) = (task.key(), task.refused);
        let result = match task.work {
            SettlerInput::Malformed(entry, why) => self.bury_malformed(entry, why).await,
            SettlerInput::Finished(finished) => self.settle_one(finished, refused == 0).await,
            SettlerInput::Settled(finished, ours) => self.settle_late(finished, ours).await,
            // There is nothing to settle.
            SettlerInput::NotStarted(delivery, error) => {
                Err((SettlerInput::NotStarted(delivery, error.clone()), error))
            }
        };
        (held, result.err().map(|(work, error)| (Task { work, refused }, error)))
    }

    /// Deletes a lane's plain successes in one round trip. Returns those that were already settled, which need separate work.
    async fn settle_plain(&self, finished: Vec<FinishedAttempt>) -> Vec<SettlerInput> {
        let lane = finished[0].delivery.job.lane;
        let ids: Vec<EntryId> = finished.iter().map(|finished| finished.delivery.job.entry).collect();
        let sent = Instant::now();
        let held_then = |finished: &FinishedAttempt| {
            let held_lease = &finished.delivery.held_lease;
            !held_lease.is_lost() && held_lease.silence(sent) < self.lease
        };
        let ours: Vec<bool> = finished.iter().map(held_then).collect();
        let (mut places, lost) = self.acknowledge(lane, &ids, ours.iter().all(|ours| *ours)).await;
        // If an earlier command settled all of them, as far as is known, we did it ourselves, unless they were claimed meanwhile.
        let by_us = lost && places.len() == ids.len();
        let (now, mut settled) = (Instant::now(), Vec::with_capacity(places.len()));
        let mut held = Vec::with_capacity(ids.len());
        places.reverse();
        for (place, finished) in finished.into_iter().enumerate() {
            if places.pop_if(|settled| *settled == place).is_some() {
                settled.push(SettlerInput::Settled(finished, by_us && ours[place]));
            } else {
                self.emit_finished(&finished, &Settlement::Ack, now);
                held.push(finished.delivery.key());
            }
        }
        self.held_leases.remove(held.iter());
        settled
    }

    /// Sends until Redis has answered, because a lane in which nothing can be settled is not read any further. Returns
    /// the indexes of what was already settled, and whether an earlier command may have done that.
    async fn acknowledge(&self, lane: Lane, ids: &[EntryId], held: bool) -> (Vec<usize>, bool) {
        let (mut backoff, mut sent_before, mut all_deleted) = (RedisBackoff::new(), false, false);
        if held {
            let sent = self.queue.acknowledge_held(self.queue.link(), &self.consumer, lane, ids);
            match self.monitor.ask(Duration::ZERO, sent).await {
                Ok((deleted, acknowledged)) if deleted == ids.len() => {
                    if acknowledged == Some(deleted) {
                        return (Vec::new(), false);
                    }
                    all_deleted = true;
                }
                Ok((deleted, acknowledged)) => sent_before = deleted > 0 || acknowledged != Some(0),
                Err(error) => {
                    sent_before = matches!(error, Error::Unknown { .. });
                    self.events.redis_error(error.kind(), &error);
                    backoff.wait(&error).await;
                }
            }
        }
        loop {
            let sent = self.queue.acknowledge(self.queue.link(), lane, ids);
            match self.monitor.ask(Duration::ZERO, sent).await {
                // What could still be deleted was for nobody else to settle.
                Ok(_) if all_deleted => return (Vec::new(), false),
                Ok(places) => return (places, sent_before),
                Err(error) => {
                    sent_before |= matches!(error, Error::Unknown { .. });
                    self.events.redis_error(error.kind(), &error);
                    backoff.wait(&error).await;
                }
            }
        }
    }

    /// Settles a plain success whose entry is already settled. It cancels a retry that has not started. If nothing is
    /// known about the job, and it was `ours`, our own first command settled it.
    async fn settle_late(&self, finished: FinishedAttempt, ours: bool) -> SettleResult {
        let applied = match self.apply(&finished, &Settlement::Ack).await {
            Ok(applied) => applied,
            Err(error) => return Err((SettlerInput::Settled(finished, ours), error)),
        };
        match applied {
            Applied::Moved => self.emit_finished(&finished, &Settlement::Ack, Instant::now()),
            Applied::Untraced if ours => self.emit_finished(&finished, &Settlement::Ack, Instant::now()),
            Applied::Late => {
                tracing::info!(job = %finished.delivery.job.id, "a late success cancelled the retry");
                self.emit_finished(&finished, &Settlement::Ack, Instant::now());
            }
            Applied::Stale | Applied::Untraced if sabotage::is(Sabotage::FencedSuccessCounted) => {
                self.emit_finished(&finished, &Settlement::Ack, Instant::now());
            }
            Applied::Stale | Applied::Untraced | Applied::Cancelled => self.emit_fenced(),
        }
        Ok(())
    }

    async fn settle_one(&self, finished: FinishedAttempt, is_first: bool) -> SettleResult {
        let job = &finished.delivery.job;
        let policy = self.policies.of(&job.job_type);
        let mut settlement = settle(job, policy, self.routing, &finished.outcome, rand::random());
        if sabotage::is(Sabotage::DrainAcksRunning) && settlement == Settlement::Release {
            settlement = Settlement::Ack;
        }
        if let (Outcome::Failed(Failure { kind, error, .. }), true) = (&finished.outcome, is_first) {
            let queue = self.queue.name();
            let (job_type, job) = (&job.job_type, &job.id);
            self.events.emit(&Event::Failed { queue, job_type, job, kind: *kind, error });
        }
        let settlement = match self.apply(&finished, &settlement).await {
            Err(error) => return Err((SettlerInput::Finished(finished), error)),
            Ok(Applied::Stale | Applied::Untraced) => {
                self.emit_fenced();
                return Ok(());
            }
            Ok(Applied::Moved) => settlement,
            Ok(Applied::Late) if settlement == Settlement::Ack => settlement,
            // The success was reported when it came.
            Ok(Applied::Late) => return Ok(()),
            Ok(Applied::Cancelled) => Settlement::Cancel("cancelled".to_owned()),
        };
        self.emit_finished(&finished, &settlement, Instant::now());
        Ok(())
    }

    async fn apply(&self, finished: &FinishedAttempt, settlement: &Settlement) -> Result<Applied, Error> {
        let delivery = &finished.delivery;
        let taken = TakenJob { job: &delivery.job, envelope: &delivery.envelope, trace: delivery.trace() };
        let result = if let Outcome::Done(result) = &finished.outcome { result.as_ref() } else { None };
        let tracking = taken.job.tracking(self.policies.of(&taken.job.job_type), self.tracking);
        let keep = KeepRecord { record: finished.tracked, tracking, retention: self.retention, result };
        let ran = AttemptSummary {
            elapsed: finished.elapsed,
            outcome: outcome_name(&finished.outcome),
            worker: self.consumer.as_str(),
        };
        self.retry(|| self.queue.apply(&self.consumer, taken, settlement, keep, &ran)).await
    }

    async fn bury_malformed(&self, entry: Entry, why: String) -> SettleResult {
        let ran =
            AttemptSummary { elapsed: Duration::ZERO, outcome: "malformed", worker: self.consumer.as_str() };
        match self.retry(|| self.queue.bury_malformed(&self.consumer, &entry, &why, &ran)).await {
            Ok(Some(job)) => {
                self.events.emit(&Event::Finished(Finished::malformed(self.queue.name(), &job, &why)));
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(error) => Err((SettlerInput::Malformed(entry, why), error)),
        }
    }

    /// Sends until Redis has answered. It is an error if Redis refuses for its own reasons: a person must fix that.
    async fn retry<T, F: Future<Output = Result<T, Error>>>(&self, send: impl Fn() -> F) -> Result<T, Error> {
        let mut backoff = RedisBackoff::new();
        loop {
            match self.monitor.ask(Duration::ZERO, send()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    self.events.redis_error(error.kind(), &error);
                    if !error.is_transient() {
                        return Err(error);
                    }
                    backoff.wait(&error).await;
                }
            }
        }
    }

    fn emit_fenced(&self) {
        self.events.emit(&Event::Fenced { queue: self.queue.name() });
    }

    fn emit_finished(&self, finished: &FinishedAttempt, settlement: &Settlement, now: Instant) {
        let job = &finished.delivery.job;
        let age = self.clock.since(job.created.as_ms(), now);
        let finished_event = Finished::new(self.queue.name(), job, settlement, (finished.elapsed, age));
        self.events.emit(&Event::Finished(finished_event));
    }
}

/// Separates plain successes, in batches of one lane each, from everything else.
fn sort(work: Vec<SettlerInput>) -> (impl Iterator<Item = Vec<FinishedAttempt>>, Vec<SettlerInput>) {
    let (mut plain, mut rest) = (<[Vec<FinishedAttempt>; 3]>::default(), Vec::new());
    for work in work {
        match work {
            SettlerInput::Finished(finished) if finished.is_plain_success() => {
                plain[finished.delivery.job.lane as usize].push(finished);
            }
            SettlerInput::Finished(_)
            | SettlerInput::Settled(..)
            | SettlerInput::NotStarted(..)
            | SettlerInput::Malformed(..) => rest.push(work),
        }
    }
    (plain.into_iter().flat_map(in_batches), rest)
}

fn in_batches(mut lane: Vec<FinishedAttempt>) -> impl Iterator<Item = Vec<FinishedAttempt>> {
    std::iter::from_fn(move || {
        let rest = lane.split_off(lane.len().min(MAX_BATCH));
        let batch = std::mem::replace(&mut lane, rest);
        (!batch.is_empty()).then_some(batch)
    })
}

/// Returns in one word how an attempt ended, for the ring of attempts.
fn outcome_name(outcome: &Outcome) -> &'static str {
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
