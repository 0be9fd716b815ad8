//! Stage 2: hands deliveries to free slots. A slot is one task that runs one attempt at a time, so the number of slots is
//! the concurrency, and a job costs no task of its own.
//!
//! A slot takes the next delivery by itself when it is done, so quick jobs need no waking at all. Slots are woken when
//! deliveries arrive, one for each thread, and whenever a handler has to wait: then the next slot takes over.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::delivery::Delivery;
use super::quota::Quota;

/// Nothing is read while deliveries of more bytes than this wait for a slot.
const WAITING_BYTES: usize = 64 * 1024 * 1024;

/// The deliveries that wait for a slot, and how many bytes they have in all.
#[derive(Debug, Default)]
struct Waiting {
    deliveries: VecDeque<Arc<Delivery>>,
    bytes: usize,
}

impl Waiting {
    fn is_heavy(&self) -> bool {
        self.bytes > WAITING_BYTES
    }

    fn push(&mut self, deliveries: Vec<Arc<Delivery>>) {
        self.bytes += bytes(&deliveries);
        self.deliveries.extend(deliveries);
    }

    fn pop(&mut self) -> Option<Arc<Delivery>> {
        let delivery = self.deliveries.pop_front()?;
        self.bytes -= delivery.envelope.size();
        Some(delivery)
    }

    /// Takes out those that match.
    fn withdraw(&mut self, matches: impl Fn(&Delivery) -> bool) -> Vec<Arc<Delivery>> {
        let all = std::mem::take(&mut self.deliveries);
        let (matching, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|delivery| matches(delivery));
        self.deliveries = VecDeque::from(others);
        self.bytes -= bytes(&matching);
        matching
    }
}

fn bytes(deliveries: &[Arc<Delivery>]) -> usize {
    deliveries.iter().map(|delivery| delivery.envelope.size()).sum()
}

/// The deliveries that wait for a slot, and the room there is for more.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    waiting: Mutex<Waiting>,
    /// Told when those that wait are no longer too large together.
    lightened: Notify,
    arrived: Notify,
    threads: usize,
    capacity: usize,
    room: AtomicIsize,
    freed: Notify,
    running: AtomicUsize,
    closed: AtomicBool,
    /// How many attempts may start, where that is bounded.
    quota: Option<Arc<Quota>>,
}

impl Dispatcher {
    /// Room for `slots` running and `prefetch` waiting deliveries, run by so many threads.
    pub(crate) fn new(slots: usize, prefetch: usize, threads: usize) -> Self {
        Self {
            waiting: Mutex::default(),
            lightened: Notify::new(),
            arrived: Notify::new(),
            threads,
            capacity: slots + prefetch,
            room: AtomicIsize::new((slots + prefetch).cast_signed()),
            freed: Notify::new(),
            running: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            quota: None,
        }
    }

    /// The same, which hands out nothing more once the quota is spent.
    pub(crate) fn within(self, quota: Option<Arc<Quota>>) -> Self {
        Self { quota, ..self }
    }

    /// All the room there ever is.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Takes all the room there is, up to `most`; waits where there is none. What is not used must be given back.
    pub(crate) async fn reserve(&self, most: usize) -> usize {
        loop {
            let freed = self.freed.notified();
            match self.reserve_now(most) {
                0 => freed.await,
                room => return room,
            }
        }
    }

    /// The same, but not while what waits for a slot is too large in all.
    pub(crate) async fn reserve_lightly(&self, most: usize) -> usize {
        loop {
            let lightened = self.lightened.notified();
            let mut lightened = std::pin::pin!(lightened);
            // From here on no waking is lost, and then the bytes are looked at.
            lightened.as_mut().enable();
            if !self.lock().is_heavy() {
                return self.reserve(most).await;
            }
            lightened.await;
        }
    }

    /// Takes the room there is now, up to `most`, perhaps none.
    pub(crate) fn reserve_now(&self, most: usize) -> usize {
        let take = |room: isize| (room > 0).then(|| room - room.min(most.cast_signed()));
        let before = self.room.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        before.map_or(0, |room| room.cast_unsigned().min(most))
    }

    /// Takes room whether there is any or not, for what is already ours. Nothing new is read until it is free again.
    pub(crate) fn take(&self, count: usize) {
        self.room.fetch_sub(count.cast_signed(), Ordering::AcqRel);
    }

    /// Gives room back.
    pub(crate) fn free(&self, count: usize) {
        if count > 0 {
            self.room.fetch_add(count.cast_signed(), Ordering::AcqRel);
            self.freed.notify_one();
        }
    }

    /// How many handlers run now.
    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    /// Queues deliveries for which room was reserved.
    pub(crate) fn push(&self, deliveries: Vec<Arc<Delivery>>) {
        let count = deliveries.len();
        self.lock().push(deliveries);
        for _ in 0..count.min(self.threads) {
            self.arrived.notify_one();
        }
    }

    /// Queues a delivery once more for which there is no room, so that one less is read. It comes back where nothing is handed
    /// out any more.
    pub(crate) fn offer_again(&self, delivery: Arc<Delivery>) -> Result<(), Arc<Delivery>> {
        let mut waiting = self.lock();
        // Whoever closes it says so before it takes out what waits.
        if self.closed.load(Ordering::Acquire) {
            return Err(delivery);
        }
        self.take(1);
        waiting.push(vec![delivery]);
        drop(waiting);
        self.arrived.notify_one();
        Ok(())
    }

    /// The next delivery for a slot; `None` when there will be none.
    pub(crate) async fn next(&self) -> Option<Arc<Delivery>> {
        loop {
            let arrived = self.arrived.notified();
            let mut arrived = std::pin::pin!(arrived);
            // From here on no waking is lost, and then the queue is looked at.
            arrived.as_mut().enable();
            if let Some(delivery) = self.pop() {
                self.running.fetch_add(1, Ordering::Relaxed);
                return Some(delivery);
            }
            if self.closed.load(Ordering::Acquire) {
                // Pass the news on to the next slot.
                self.arrived.notify_one();
                return None;
            }
            arrived.await;
        }
    }

    /// The delivery that a slot takes after its last one, if there is one.
    pub(crate) fn next_now(&self) -> Option<Arc<Delivery>> {
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
        self.lighten(Waiting::pop)
    }

    /// Changes what waits, and says so where it was too large before and is not now.
    fn lighten<T>(&self, change: impl FnOnce(&mut Waiting) -> T) -> T {
        let mut waiting = self.lock();
        let was_heavy = waiting.is_heavy();
        let result = change(&mut waiting);
        let is_heavy = waiting.is_heavy();
        drop(waiting);
        if was_heavy && !is_heavy {
            self.lightened.notify_waiters();
        }
        result
    }

    /// Says that an attempt starts.
    pub(crate) fn started(&self) {
        if let Some(quota) = &self.quota {
            quota.count();
        }
    }

    /// Says that a slot has to wait for its handler, so that another one takes over.
    pub(crate) fn yield_to_next(&self) {
        if !self.lock().deliveries.is_empty() {
            self.arrived.notify_one();
        }
    }

    /// Says that a slot is done with its delivery.
    pub(crate) fn done(&self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
        self.free(1);
    }

    /// Takes out of the waiting deliveries those that match, and gives their room back.
    pub(crate) fn withdraw(&self, matches: impl Fn(&Delivery) -> bool) -> Vec<Arc<Delivery>> {
        let taken = self.lighten(|waiting| waiting.withdraw(matches));
        self.free(taken.len());
        taken
    }

    /// Stops handing out, and returns what had not started.
    pub(crate) fn close(&self) -> Vec<Arc<Delivery>> {
        self.closed.store(true, Ordering::Release);
        let unstarted = self.lighten(|waiting| waiting.withdraw(|_| true));
        self.arrived.notify_one();
        self.arrived.notify_waiters();
        unstarted
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::lease::HeldLease;
    use super::*;
    use crate::job::{EntryId, Envelope, Job, Lane};

    #[tokio::test]
    async fn room_is_handed_out_once_and_waited_for() {
        let dispatcher = Dispatcher::new(3, 1, 2);
        assert_eq!(dispatcher.reserve(10).await, 4);
        let waiting = dispatcher.reserve(10);
        let mut waiting = std::pin::pin!(waiting);
        assert!(futures_util::poll!(&mut waiting).is_pending());
        dispatcher.free(2);
        assert_eq!(waiting.await, 2);
    }

    fn delivery(bytes: usize) -> Arc<Delivery> {
        let payload = vec![0; bytes];
        let fields = [(b"type".as_slice(), b"test".as_slice()), (b"payload", &payload)];
        let envelope = Envelope::new(fields.into_iter());
        let job = Job::parse(&envelope, EntryId::new(1, 0), Lane::Normal).unwrap();
        Arc::new(Delivery::new(job, envelope, HeldLease::new(std::time::Instant::now())))
    }

    #[tokio::test]
    async fn nothing_is_read_while_what_waits_is_too_large() {
        let dispatcher = Dispatcher::new(8, 8, 2);
        dispatcher.take(2);
        dispatcher.push(vec![delivery(WAITING_BYTES / 2), delivery(WAITING_BYTES / 2)]);
        let reading = dispatcher.reserve_lightly(10);
        let mut reading = std::pin::pin!(reading);
        assert!(futures_util::poll!(&mut reading).is_pending());
        let first = dispatcher.next_now();
        assert!(first.is_some());
        assert_eq!(reading.await, 10, "one of them runs, the other may wait");
        dispatcher.free(10);
        dispatcher.push(vec![delivery(WAITING_BYTES)]);
        assert_eq!(dispatcher.withdraw(|_| true).len(), 2);
        assert_eq!(dispatcher.reserve_lightly(3).await, 3);
    }

    #[tokio::test]
    async fn a_closed_dispatcher_hands_out_nothing_to_any_slot() {
        let dispatcher = Dispatcher::new(2, 0, 1);
        let slots = futures_util::future::join(dispatcher.next(), dispatcher.next());
        let mut slots = std::pin::pin!(slots);
        assert!(futures_util::poll!(&mut slots).is_pending());
        assert!(dispatcher.close().is_empty());
        assert!(matches!(slots.await, (None, None)));
        assert!(dispatcher.next().await.is_none());
    }
}
