//! Stage 4: turns outcomes into what Redis must do. Plain successes go in batches of one round trip, everything else in
//! groups of one script. An outcome is kept, and sent again, until Redis has accepted it: the fence in the script decides
//! whether it still counts. What Redis refuses for its own reasons, such as a record of another type, waits
//! [aside](super::quarantine), and holds up nothing else.

mod attempts;
mod plain;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use self::attempts::{Decided, Fate};
use super::admission::Admission;
use super::backoff::RedisBackoff;
use super::clock::ServerClock;
use super::delivery::{Delivery, SettlerInput};
use super::dispatcher::Dispatcher;
use super::held_leases::HeldLeases;
use super::lease::EntryKey;
use super::outbox::{MIN_BATCH, Outbox};
use super::quarantine::{Quarantine, Task};
use crate::broker::{Error, Queue, grouped};
use crate::event::{Events, QueueEvent};
use crate::health::Monitor;
use crate::job::{ConsumerName, Outcome, Policies, Tracking};

/// The most batches and groups in flight, so that Redis need not wait while the next one is put together.
const UNDER_WAY: usize = 4;

/// The number of settlements whose receipts are forgotten in one command.
const RECEIPTS: usize = 100;

/// The most settlements that are sent alone at the same time, because their group was not answered or refused.
const ALONE_UNDER_WAY: usize = 500;

/// Settles outcomes. There is one per queue.
pub(crate) struct Settler {
    pub(crate) queue: Queue,
    pub(crate) consumer: ConsumerName,
    pub(crate) held_leases: Arc<HeldLeases>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) policies: Arc<Policies>,
    /// Which jobs leave a record if neither they nor their type say.
    pub(crate) tracking: Tracking,
    /// Whether the queue's journal gets the fields of jobs that did not fail.
    pub(crate) journal_fields: bool,
    pub(crate) retention: Duration,
    pub(crate) lease: Duration,
    pub(crate) events: Events,
    pub(crate) monitor: Monitor,
    pub(crate) clock: Arc<ServerClock>,
    /// Set once Redis has refused plain commands for want of a right. From then on, scripts settle everything.
    pub(crate) only_scripts: AtomicBool,
}

/// What is settled alone.
enum Single {
    Attempt(Decided),
    /// An entry that is not a job, or a delivery that could not begin.
    Other(Task),
}

impl Settler {
    /// Settles until the outbox is closed and empty. What waits in quarantine then is tried once more, and left to its lease.
    pub(crate) async fn run(self, outbox: Arc<Outbox>) {
        let (mut plain, mut groups) = (FuturesUnordered::new(), FuturesUnordered::new());
        let (mut singles, mut forgetting) = (FuturesUnordered::new(), FuturesUnordered::new());
        let (mut answered, mut quarantine) = (Vec::new(), Quarantine::new(self.dispatcher.load()));
        let mut open = true;
        while open || !plain.is_empty() || !groups.is_empty() || !singles.is_empty() || !quarantine.is_empty()
        {
            let under_way = plain.len() + groups.len();
            let least = if under_way == 0 { 1 } else { MIN_BATCH };
            let may_send = under_way < UNDER_WAY && singles.len() < ALONE_UNDER_WAY;
            let (mut rest, mut fates): (Vec<SettlerInput>, Vec<Fate>) = (Vec::new(), Vec::new());
            tokio::select! {
                biased;
                Some(settled) = plain.next() => rest = settled,
                Some(noted) = groups.next() => fates = noted,
                Some(fate) = singles.next() => fates.push(fate),
                Some(()) = forgetting.next() => {}
                Some(task) = quarantine.next() => {
                    let task = self.requeue(task, quarantine.is_closed());
                    singles.extend(task.map(|task| self.settle_alone(self.decide(task))));
                }
                work = outbox.take(least), if open && may_send => {
                    let Some(work) = work else {
                        open = false;
                        quarantine.close();
                        continue;
                    };
                    let (batches, others) = plain::sort(work);
                    plain.extend(batches.map(|batch| self.settle_plain(batch)));
                    rest = others;
                }
            }
            let (decided, mut alone) = self.decide_all(rest);
            alone
                .extend(fates.into_iter().filter_map(|fate| self.note(fate, &mut answered, &mut quarantine)));
            groups
                .extend(grouped(decided, Decided::member).into_iter().map(|group| self.settle_group(group)));
            singles.extend(alone.into_iter().map(|single| self.settle_alone(single)));
            if answered.len() >= RECEIPTS || (groups.is_empty() && singles.is_empty() && !answered.is_empty())
            {
                forgetting.push(self.forget_receipts(std::mem::take(&mut answered)));
            }
        }
    }

    /// Notes what became of one settlement. Returns it if it must be sent again, alone.
    fn note(&self, fate: Fate, answered: &mut Vec<EntryKey>, quarantine: &mut Quarantine) -> Option<Single> {
        match fate {
            Fate::Settled(held) => {
                self.held_leases.remove(std::iter::once(&held));
                answered.push(held);
                None
            }
            Fate::Alone(decided) => Some(Single::Attempt(decided)),
            Fate::Refused(task, error) => {
                self.set_aside(quarantine, task, &error);
                None
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
                tracing::debug!(%error, "failed to delete receipts of outcomes; they stay until the worker stops");
                return;
            }
            backoff.wait(&error).await;
        }
    }

    /// Sets aside what Redis refuses, and reports so the first time. Other jobs get its places in gates.
    fn set_aside(&self, quarantine: &mut Quarantine, task: Task, error: &Error) {
        let job = task.job();
        self.leave(&task);
        if let Some(waitlist) = task.waitlist().filter(|_| error.is_of_waitlist()) {
            self.admission.refused_waitlists.note(&waitlist);
        }
        if task.refused == 0 {
            let keys = self.queue.keys_of(&job);
            self.events.of_queue(
                self.queue.name(),
                QueueEvent::SetAside { job: &job, keys: &keys, error: &error.to_string() },
            );
        }
        if quarantine.is_closed() {
            tracing::warn!(queue = %self.queue.name(), %job, %error, "the end of a job was not recorded before the worker stopped; the job is taken over when its lease expires");
            return self.held_leases.remove(std::iter::once(&task.key()));
        }
        quarantine.push(task);
    }

    /// Offers a delivery that could not begin to the slots again. Returns what must be settled instead: other work, and
    /// deliveries that come too late, or too early.
    fn requeue(&self, task: Task, is_closed: bool) -> Option<Task> {
        let Task { work, refused } = task;
        let work = match work {
            SettlerInput::NotStarted(delivery, error) if !is_closed && self.must_not_ask(&delivery) => {
                SettlerInput::NotStarted(delivery, error)
            }
            SettlerInput::NotStarted(delivery, _) => {
                let not_started = self.dispatcher.requeue(delivery).err()?;
                SettlerInput::not_run(not_started, Outcome::Interrupted)
            }
            work @ (SettlerInput::Finished(_) | SettlerInput::Settled(..) | SettlerInput::Malformed(..)) => {
                work
            }
        };
        Some(Task { work, refused })
    }

    /// Returns true while a delivery that is not cut must not ask whether it may begin: its places are still being given back.
    fn must_not_ask(&self, delivery: &Delivery) -> bool {
        !delivery.held_lease.is_cut() && self.admission.is_giving_back(delivery.key())
    }
}
