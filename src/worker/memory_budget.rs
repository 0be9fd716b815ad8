//! The bytes of deliveries that are put off until Redis has taken them back, or set aside until a person has repaired
//! something. They hold no room, so nothing else would keep the reader from reading more of them than fit into memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Nothing is read while more bytes than this are on their way back, wait in quarantine, or wait for a slot.
pub(super) const MOST_BYTES: usize = 64 * 1024 * 1024;

/// The bytes that are on their way back or wait in quarantine.
#[derive(Debug, Default)]
pub(super) struct MemoryBudget {
    bytes: AtomicUsize,
    /// Notified when there are few enough bytes again.
    pub(super) below_limit: Notify,
}

/// The bytes of one delivery. They count until it is dropped, when nothing knows the delivery any more.
#[derive(Debug)]
pub(super) struct MemoryCharge {
    budget: Arc<MemoryBudget>,
    bytes: usize,
}

impl MemoryBudget {
    pub(super) fn is_used_up(&self) -> bool {
        self.bytes.load(Ordering::Acquire) > MOST_BYTES
    }
}

impl MemoryCharge {
    pub(super) fn new(budget: &Arc<MemoryBudget>, bytes: usize) -> Self {
        budget.bytes.fetch_add(bytes, Ordering::AcqRel);
        Self { budget: Arc::clone(budget), bytes }
    }
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        let before = self.budget.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        if before > MOST_BYTES && before - self.bytes <= MOST_BYTES {
            self.budget.below_limit.notify_waiters();
        }
    }
}
