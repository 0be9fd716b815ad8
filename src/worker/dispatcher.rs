//! Stage 2: hands deliveries to free slots. A slot is one task that runs one attempt at a time. So the number of slots
//! is the concurrency, and a job costs no extra task.
//!
//! A delivery whose type or key already runs as often as it may waits in the [backlog](super::backlog), or is put off.
//!
//! A slot takes its next delivery as soon as it is done, so quick jobs need no wake-ups at all. Slots are woken when
//! deliveries arrive, one for each thread, and whenever a handler has to wait: then the next slot takes over.

mod limited;
mod waiting;

use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use self::limited::{Limited, PutOff};
use self::waiting::Waiting;
use super::delivery::Delivery;
use super::limits::{Limits, Permit};
use super::memory_budget::{MemoryBudget, MemoryCharge};
use super::quota::Quota;
use crate::broker::mutex::lock;
use crate::wakeup::wait_for;

/// What became of deliveries that were handed over.
#[derive(Debug)]
pub(crate) struct Pushed {
    /// How many of them use room. The others do not.
    pub(crate) ready: usize,
    /// Those for which there is no place, and after how long they should come back.
    pub(crate) put_off: Vec<PutOff>,
}

/// The deliveries that wait for a slot, and the room for more.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    waiting: Mutex<Waiting>,
    /// The bytes of the deliveries that are put off. Its `below_limit` is also notified when the waiting deliveries are no longer
    /// too large together.
    budget: Arc<MemoryBudget>,
    arrived: Notify,
    threads: usize,
    /// The total room.
    pub(crate) capacity: usize,
    free_slots: AtomicIsize,
    freed: Notify,
    /// How much room the reader waits for, if it waits for more than some.
    enough: AtomicIsize,
    gathered: Notify,
    running: AtomicUsize,
    closed: AtomicBool,
    /// How many attempts may start, if that is limited.
    quota: Option<Arc<Quota>>,
    /// How many attempts of a type or key may run at once, if that is limited.
    limited: Option<Limited>,
}

impl Dispatcher {
    /// Creates a dispatcher with room for `slots` running and `prefetch` waiting deliveries, run by `threads` threads.
    pub(crate) fn new(slots: usize, prefetch: usize, threads: usize) -> Self {
        Self {
            waiting: Mutex::default(),
            budget: Arc::default(),
            arrived: Notify::new(),
            threads,
            capacity: slots + prefetch,
            free_slots: AtomicIsize::new((slots + prefetch).cast_signed()),
            freed: Notify::new(),
            enough: AtomicIsize::new(isize::MAX),
            gathered: Notify::new(),
            running: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            quota: None,
            limited: None,
        }
    }

    /// Limits the dispatcher to a quota. Once it is spent, nothing more is handed out.
    pub(crate) fn with_quota(self, quota: Option<Arc<Quota>>) -> Self {
        Self { quota, ..self }
    }

    /// Limits how many attempts of a type or key are handed out at once.
    pub(crate) fn with_limits(self, limits: Option<Arc<Limits>>) -> Self {
        let limited =
            limits.map(|limits| Limited { limits, backlog: Mutex::default(), relieved: Notify::new() });
        Self { limited, ..self }
    }

    /// Shares it with its slots, and with the other queues under the same limits.
    pub(crate) fn shared(self) -> Arc<Self> {
        let shared = Arc::new(self);
        if let Some(limited) = &shared.limited {
            limited.limits.round_robin.join(Arc::downgrade(&shared));
        }
        shared
    }

    /// Returns true if a type or key is limited.
    pub(crate) fn is_limited(&self) -> bool {
        self.limited.is_some()
    }

    /// Returns the place that a delivery takes while it runs, if its type or key is limited.
    pub(crate) fn place_of(&self, delivery: &Delivery) -> Option<Permit> {
        self.limited.as_ref()?.limits.place_of(delivery)
    }

    /// Takes all free room, up to `most`; waits if there is none. Unused room must be given back.
    pub(crate) async fn reserve(&self, most: usize) -> usize {
        wait_for(&self.freed, || Some(self.try_reserve(most)).filter(|free_slots| *free_slots > 0)).await
    }

    /// Takes all free room, up to `most`, but not while the deliveries that wait for a slot, or those that are put off or set
    /// aside, are too large together.
    pub(crate) async fn reserve_unless_heavy(&self, most: usize) -> usize {
        let is_light = || !lock(&self.waiting).is_used_up() && !self.budget.is_used_up();
        wait_for(&self.budget.below_limit, || is_light().then_some(())).await;
        self.reserve(most).await
    }

    /// Returns the load of what is put off or set aside. While it is heavy, nothing is read.
    pub(super) fn load(&self) -> Arc<MemoryBudget> {
        Arc::clone(&self.budget)
    }

    /// Takes the room that is free now, up to `most`, perhaps none.
    pub(crate) fn try_reserve(&self, most: usize) -> usize {
        let take =
            |free_slots: isize| (free_slots > 0).then(|| free_slots - free_slots.min(most.cast_signed()));
        let before = self.free_slots.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        before.map_or(0, |free_slots| free_slots.cast_unsigned().min(most))
    }

    /// Waits until there is this much room, but no longer than this.
    pub(crate) async fn gather(&self, count: usize, longest: Duration) {
        self.enough.store(count.cast_signed(), Ordering::Relaxed);
        let gathered = async {
            while self.free_slots.load(Ordering::Acquire) < count.cast_signed() {
                self.gathered.notified().await;
            }
        };
        // Having less in time is as good.
        tokio::time::timeout(longest, gathered).await.ok();
        self.enough.store(isize::MAX, Ordering::Relaxed);
    }

    /// Takes room for what is already ours, whether or not any is free. Nothing new is read until there is room again.
    pub(crate) fn reserve_anyway(&self, count: usize) {
        self.free_slots.fetch_sub(count.cast_signed(), Ordering::AcqRel);
    }

    /// Gives room back.
    pub(crate) fn free(&self, count: usize) {
        if count > 0 {
            let free_slots =
                self.free_slots.fetch_add(count.cast_signed(), Ordering::AcqRel) + count.cast_signed();
            self.freed.notify_one();
            if free_slots >= self.enough.load(Ordering::Relaxed) {
                self.gathered.notify_one();
            }
        }
    }

    /// Returns how many handlers are running.
    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    /// Queues deliveries for which room was reserved. Those that may not start yet use none, and the caller gives it back.
    pub(crate) fn push(&self, deliveries: Vec<Arc<Delivery>>) -> Pushed {
        let (ready, put_off) = match &self.limited {
            None => (deliveries, Vec::new()),
            Some(limited) => limited.admit(deliveries),
        };
        for (delivery, _) in &put_off {
            delivery.memory_charge.get_or_init(|| MemoryCharge::new(&self.budget, delivery.envelope.size()));
        }
        let pushed = Pushed { ready: ready.len(), put_off };
        self.enqueue(ready);
        pushed
    }

    /// Hands deliveries to the slots.
    fn enqueue(&self, deliveries: Vec<Arc<Delivery>>) {
        let count = deliveries.len();
        lock(&self.waiting).push(deliveries);
        for _ in 0..count.min(self.threads) {
            self.arrived.notify_one();
        }
    }

    /// Requeues a delivery for which there is no room, so that one less is read. Returns the delivery if nothing is handed
    /// out any more.
    pub(crate) fn requeue(&self, delivery: Arc<Delivery>) -> Result<(), Arc<Delivery>> {
        if let (Some(limited), Some(permit)) = (&self.limited, self.place_of(&delivery)) {
            let _turn = limited.limits.round_robin.take();
            let (mut backlog, now) = (lock(&limited.backlog), Instant::now());
            if self.closed.load(Ordering::Acquire) {
                return Err(delivery);
            }
            if !limited.limits.enter(permit, now) {
                backlog.keep(delivery, permit, now);
                return Ok(());
            }
        }
        let mut waiting = lock(&self.waiting);
        // `close` sets this before it takes out what waits.
        if self.closed.load(Ordering::Acquire) {
            return Err(delivery);
        }
        self.reserve_anyway(1);
        waiting.push(vec![delivery]);
        drop(waiting);
        self.arrived.notify_one();
        Ok(())
    }

    /// Returns the next delivery for a slot; `None` when there will be no more.
    pub(crate) async fn next(&self) -> Option<Arc<Delivery>> {
        wait_for(&self.arrived, || {
            let delivery = self.try_next();
            if delivery.is_none() && self.closed.load(Ordering::Acquire) {
                // Pass the news on to the next slot.
                self.arrived.notify_one();
                return Some(None);
            }
            delivery.map(Some)
        })
        .await
    }

    /// Returns the delivery that a slot takes after its last one, if any.
    pub(crate) fn try_next(&self) -> Option<Arc<Delivery>> {
        let delivery = self.pop();
        if delivery.is_some() {
            self.running.fetch_add(1, Ordering::Relaxed);
        }
        delivery
    }

    fn pop(&self) -> Option<Arc<Delivery>> {
        if self.quota.as_ref().is_some_and(|quota| quota.is_spent()) {
            return None;
        }
        self.update_waiting(Waiting::pop)
    }

    /// Changes what waits, and notifies if it was too large before and is not any more.
    fn update_waiting<T>(&self, change: impl FnOnce(&mut Waiting) -> T) -> T {
        let mut waiting = lock(&self.waiting);
        let was_heavy = waiting.is_used_up();
        let result = change(&mut waiting);
        let is_used_up = waiting.is_used_up();
        drop(waiting);
        if was_heavy && !is_used_up {
            self.budget.below_limit.notify_waiters();
        }
        result
    }

    /// Notes that an attempt starts.
    pub(crate) fn started(&self) {
        if let Some(quota) = &self.quota {
            quota.count();
        }
    }

    /// Notes that a slot has to wait for its handler, so that another one takes over.
    pub(crate) fn yield_to_next(&self) {
        if !lock(&self.waiting).deliveries.is_empty() {
            self.arrived.notify_one();
        }
    }

    /// Notes that a slot is done with its delivery. If that had a place, the slot says which, and how long it took.
    pub(crate) fn done(&self, permit: Option<(Permit, Duration)>) {
        self.running.fetch_sub(1, Ordering::Relaxed);
        if let (Some(limited), Some((permit, ran))) = (&self.limited, permit) {
            let mut turn = limited.limits.round_robin.take();
            limited.limits.leave(permit, Some(ran));
            turn.serve(Self::start_backlog);
        }
        self.free(1);
    }

    /// Hands to the slots what may start now that there are places. Returns true if there is anything.
    fn start_backlog(&self) -> bool {
        let Some(limited) = &self.limited else { return false };
        let mut backlog = lock(&limited.backlog);
        // `close` sets this before it takes out what waits.
        if self.closed.load(Ordering::Acquire) {
            return false;
        }
        // Usually, all may start at once.
        if backlog.is_idle() {
            return false;
        }
        let startable = backlog.startable(&limited.limits, Instant::now());
        limited.tell_reader(&backlog);
        let starts = !startable.is_empty();
        if starts {
            self.reserve_anyway(startable.len());
            self.enqueue(startable);
        }
        starts
    }

    /// Waits while more deliveries wait for others of their type or key than can start in a moment, but not for long.
    pub(crate) async fn relieved(&self) {
        let Some(limited) = &self.limited else { return };
        loop {
            let mut relieved = std::pin::pin!(limited.relieved.notified());
            // From here on, no wake-up is lost. Only now look.
            relieved.as_mut().enable();
            let Some(until) = lock(&limited.backlog).presses_until(Instant::now()) else { return };
            // Whether it was relieved or not, the next look shows.
            tokio::time::timeout_at(until.into(), relieved).await.ok();
        }
    }

    /// Returns how many deliveries wait for others of their type or key.
    pub(crate) fn in_backlog(&self) -> usize {
        self.limited.as_ref().map_or(0, |limited| lock(&limited.backlog).len())
    }

    /// Takes out the deliveries that have waited too long for others of their type or key. They used no room. Returns with each
    /// after how long it should come back.
    pub(crate) fn overdue(&self) -> Vec<PutOff> {
        let (Some(limited), now) = (&self.limited, Instant::now()) else { return Vec::new() };
        let overdue = {
            let mut backlog = lock(&limited.backlog);
            let overdue = backlog.overdue(now);
            limited.tell_reader(&backlog);
            overdue
        };
        let put_off = |(delivery, permit): (Arc<Delivery>, Permit)| {
            let delay = limited.limits.put_off(permit, delivery.job.lane, now);
            (delivery, delay)
        };
        overdue.into_iter().map(put_off).collect()
    }

    /// Takes the matching deliveries out of those that wait, and gives their room back.
    pub(crate) fn withdraw(&self, matches: impl Fn(&Delivery) -> bool) -> Vec<Arc<Delivery>> {
        let backlog = self.limited.as_ref().map(|limited| {
            let mut backlog = lock(&limited.backlog);
            let withdrawn = backlog.withdraw(&matches);
            limited.tell_reader(&backlog);
            withdrawn
        });
        let mut taken = self.update_waiting(|waiting| waiting.withdraw(matches));
        self.free(taken.len());
        if let Some(limited) = &self.limited {
            let mut turn = limited.limits.round_robin.take();
            let permits = taken.iter().filter_map(|delivery| limited.limits.place_of(delivery));
            permits.for_each(|permit| limited.limits.leave(permit, None));
            turn.serve(Self::start_backlog);
        }
        taken.extend(backlog.into_iter().flatten());
        taken
    }

    /// Stops handing out deliveries, and returns those that had not started.
    pub(crate) fn close(&self) -> Vec<Arc<Delivery>> {
        self.closed.store(true, Ordering::Release);
        // From here on, nothing leaves the backlog for the slots.
        let backlog = self.limited.as_ref().map(|limited| lock(&limited.backlog).withdraw(|_| true));
        let mut unstarted = self.update_waiting(|waiting| waiting.withdraw(|_| true));
        unstarted.extend(backlog.into_iter().flatten());
        self.arrived.notify_one();
        self.arrived.notify_waiters();
        unstarted
    }
}

#[cfg(test)]
mod tests;
