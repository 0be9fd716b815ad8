//! What a queue's loops know about its Redis: whether it answers, whether it refuses, and how many members the group has.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::broker::mutex::lock;
use crate::job::Pacing;

/// What the loops of one queue know about its Redis.
#[derive(Debug)]
pub(crate) struct QueueHealth {
    in_touch: AtomicBool,
    consumers: AtomicU64,
    is_refused: AtomicBool,
    /// Why the queue cannot be served, in words.
    refusal: Mutex<Option<String>>,
}

impl QueueHealth {
    /// Creates the state of a queue that has not been joined yet.
    pub(crate) fn new() -> Self {
        Self {
            in_touch: AtomicBool::new(false),
            consumers: AtomicU64::new(1),
            is_refused: AtomicBool::new(false),
            refusal: Mutex::default(),
        }
    }

    pub(crate) fn set_in_touch(&self, in_touch: bool) {
        self.in_touch.store(in_touch, Ordering::Relaxed);
    }

    /// Returns true if the last read was answered.
    pub(crate) fn in_touch(&self) -> bool {
        self.in_touch.load(Ordering::Relaxed)
    }

    /// Returns true if this process currently serves the queue.
    pub(crate) fn is_served(&self) -> bool {
        self.in_touch() && !self.is_refused.load(Ordering::Relaxed)
    }

    /// Notes why the queue cannot be served. Returns true if that is news.
    pub(crate) fn set_refused(&self, why: String) -> bool {
        let mut refusal = lock(&self.refusal);
        self.is_refused.store(true, Ordering::Relaxed);
        refusal.replace(why.clone()).is_none_or(|known| known != why)
    }

    /// Notes that the queue can be served. Returns true if that is news; costs nothing otherwise.
    pub(crate) fn clear_refusal(&self) -> bool {
        if !self.is_refused.load(Ordering::Relaxed) {
            return false;
        }
        let mut refusal = lock(&self.refusal);
        self.is_refused.store(false, Ordering::Relaxed);
        refusal.take().is_some()
    }

    /// Returns why the queue cannot be served; `None` if there is no known reason.
    pub(crate) fn refusal(&self) -> Option<String> {
        lock(&self.refusal).clone()
    }

    pub(crate) fn set_consumers(&self, consumers: u64) {
        self.consumers.store(consumers, Ordering::Relaxed);
    }

    /// Returns the pacing for the number of members in the group.
    pub(crate) fn pacing(&self) -> Pacing {
        Pacing::of(self.consumers.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_served_while_its_redis_answers_and_refuses_nothing() {
        let health = QueueHealth::new();
        assert!(!health.is_served() && !health.clear_refusal());
        health.set_in_touch(true);
        assert!(health.is_served());
        assert!(health.set_refused("a key".to_owned()) && !health.set_refused("a key".to_owned()));
        assert!(health.set_refused("another".to_owned()), "another reason is news");
        assert!(!health.is_served() && health.refusal().as_deref() == Some("another"));
        assert!(health.clear_refusal() && !health.clear_refusal());
        assert!(health.is_served() && health.refusal().is_none());
    }
}
