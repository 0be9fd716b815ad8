//! A channel with a bound to one who is told. What finds it full is dropped and counted: who tells never waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use super::fact::Fact;

/// The end for those who tell.
pub(super) struct Outlet {
    facts: mpsc::Sender<Arc<Fact>>,
    dropped: Arc<AtomicU64>,
}

/// The end for the one who is told.
pub(super) struct Intake {
    pub(super) facts: mpsc::Receiver<Arc<Fact>>,
    dropped: Arc<AtomicU64>,
}

/// A channel for at most so many facts.
pub(super) fn channel(capacity: usize) -> (Outlet, Intake) {
    let (sender, receiver) = mpsc::channel(capacity);
    let dropped = Arc::new(AtomicU64::new(0));
    (Outlet { facts: sender, dropped: Arc::clone(&dropped) }, Intake { facts: receiver, dropped })
}

impl Outlet {
    /// Passes a fact on, if there is room.
    pub(super) fn offer(&self, fact: Arc<Fact>) {
        if self.facts.try_send(fact).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Intake {
    /// How many facts were dropped since this was last asked.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }

    /// Throws away what is there; says how much that was.
    pub(super) fn discard(&mut self) -> u64 {
        let mut discarded = 0;
        while self.facts.try_recv().is_ok() {
            discarded += 1;
        }
        discarded
    }
}
