//! What a queue's loops know of its Redis: whether it answers, and how many others read the queue.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::job::Crowd;

/// What the loops of one queue know of its Redis.
#[derive(Debug)]
pub(crate) struct Pulse {
    in_touch: AtomicBool,
    consumers: AtomicU64,
}

impl Pulse {
    pub(crate) fn new() -> Self {
        Self { in_touch: AtomicBool::new(true), consumers: AtomicU64::new(1) }
    }

    pub(crate) fn set_in_touch(&self, in_touch: bool) {
        self.in_touch.store(in_touch, Ordering::Relaxed);
    }

    /// Whether the last read was answered.
    pub(crate) fn in_touch(&self) -> bool {
        self.in_touch.load(Ordering::Relaxed)
    }

    pub(crate) fn set_consumers(&self, consumers: u64) {
        self.consumers.store(consumers, Ordering::Relaxed);
    }

    /// How many members the group has.
    pub(crate) fn crowd(&self) -> Crowd {
        Crowd::of(self.consumers.load(Ordering::Relaxed))
    }
}
