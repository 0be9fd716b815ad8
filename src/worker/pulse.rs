//! The signs of life of one queue's loops, for probes and for the choice between blocking and polling.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The signs of life of one queue's loops.
#[derive(Debug)]
pub(crate) struct Pulse {
    last_turn: Mutex<Instant>,
    in_touch: AtomicBool,
    consumers: AtomicU64,
}

impl Pulse {
    pub(crate) fn new() -> Self {
        Self {
            last_turn: Mutex::new(Instant::now()),
            in_touch: AtomicBool::new(true),
            consumers: AtomicU64::new(1),
        }
    }

    /// The reader's loop turned: it read, it waits for a free slot, or Redis refused and it will ask again.
    pub(crate) fn turn(&self) {
        *self.last_turn.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Since when the reader's loop has not turned.
    pub(crate) fn silent(&self) -> Duration {
        self.last_turn.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
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
    pub(crate) fn consumers(&self) -> u64 {
        self.consumers.load(Ordering::Relaxed)
    }
}
