//! Stage 2: hands deliveries to free slots. A slot is one task that runs one attempt at a time, so the number of slots is
//! the concurrency, and a job costs no task of its own.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, Semaphore};

use super::flight::{Flight, Held};
use crate::job::{Envelope, Job};

/// A job that was delivered to this process, with the entry that carries it. Settling consumes it.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) job: Job,
    pub(crate) envelope: Envelope,
    pub(crate) flight: Arc<Flight>,
}

impl Delivery {
    pub(crate) fn held(&self) -> Held {
        (self.job.lane, self.job.entry)
    }
}

/// The deliveries that wait for a slot, and the room there is for more.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    waiting: Mutex<VecDeque<Delivery>>,
    ready: Semaphore,
    capacity: usize,
    room: AtomicIsize,
    freed: Notify,
    running: AtomicUsize,
    closed: AtomicBool,
}

impl Dispatcher {
    /// Room for `slots` running and `prefetch` waiting deliveries.
    pub(crate) fn new(slots: usize, prefetch: usize) -> Self {
        Self {
            waiting: Mutex::new(VecDeque::new()),
            ready: Semaphore::new(0),
            capacity: slots + prefetch,
            room: AtomicIsize::new((slots + prefetch).cast_signed()),
            freed: Notify::new(),
            running: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        }
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
    pub(crate) fn push(&self, deliveries: Vec<Delivery>) {
        let count = deliveries.len();
        self.lock().extend(deliveries);
        self.ready.add_permits(count);
    }

    /// The next delivery for a slot; `None` when there will be none.
    pub(crate) async fn next(&self) -> Option<Delivery> {
        loop {
            self.ready.acquire().await.ok()?.forget();
            // After closing, permits may outnumber the deliveries that are left.
            if let Some(delivery) = self.lock().pop_front() {
                self.running.fetch_add(1, Ordering::Relaxed);
                return Some(delivery);
            }
            if self.closed.load(Ordering::Acquire) {
                return None;
            }
        }
    }

    /// Says that a slot is done with its delivery.
    pub(crate) fn done(&self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
        self.free(1);
    }

    /// Stops handing out, and returns what had not started.
    pub(crate) fn close(&self) -> Vec<Delivery> {
        self.closed.store(true, Ordering::Release);
        let unstarted = self.lock().drain(..).collect();
        self.ready.close();
        unstarted
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Delivery>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn room_is_handed_out_once_and_waited_for() {
        let dispatcher = Arc::new(Dispatcher::new(3, 1));
        assert_eq!(dispatcher.reserve(10).await, 4);
        let waiting = dispatcher.reserve(10);
        let mut waiting = std::pin::pin!(waiting);
        assert!(futures_util::poll!(&mut waiting).is_pending());
        dispatcher.free(2);
        assert_eq!(waiting.await, 2);
    }

    #[tokio::test]
    async fn a_closed_dispatcher_hands_out_nothing() {
        let dispatcher = Dispatcher::new(1, 0);
        assert!(dispatcher.close().is_empty());
        assert!(dispatcher.next().await.is_none());
    }
}
