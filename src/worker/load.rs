//! The bytes of deliveries that are put off until Redis has taken them back, or set aside until a person has repaired
//! something. They hold no room, so nothing else would keep the reader from reading more of them than fit into memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Nothing is read while more bytes than this are on their way back, wait aside, or wait for a slot.
pub(super) const MOST_BYTES: usize = 64 * 1024 * 1024;

/// The bytes that are on their way back or wait aside.
#[derive(Debug, Default)]
pub(super) struct Load {
    bytes: AtomicUsize,
    /// Notified when there are few enough bytes again.
    pub(super) lightened: Notify,
}

/// The bytes of one delivery. They count until it is dropped, when nothing knows the delivery any more.
#[derive(Debug)]
pub(super) struct Burden {
    load: Arc<Load>,
    bytes: usize,
}

impl Load {
    pub(super) fn is_heavy(&self) -> bool {
        self.bytes.load(Ordering::Acquire) > MOST_BYTES
    }
}

impl Burden {
    pub(super) fn new(load: &Arc<Load>, bytes: usize) -> Self {
        load.bytes.fetch_add(bytes, Ordering::AcqRel);
        Self { load: Arc::clone(load), bytes }
    }
}

impl Drop for Burden {
    fn drop(&mut self) {
        let before = self.load.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        if before > MOST_BYTES && before - self.bytes <= MOST_BYTES {
            self.load.lightened.notify_waiters();
        }
    }
}
