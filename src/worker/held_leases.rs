//! All entries of one queue that this process holds, from their delivery until Redis knows their outcome. The heartbeat
//! renews their leases; the reader asks whether an entry is known.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::delivery::Delivery;
use super::lease::EntryKey;
use crate::broker::mutex::lock;

/// The entries that this process holds of one queue. Bytes that are not a job are held without a delivery.
#[derive(Debug, Default)]
pub(crate) struct HeldLeases {
    table: Mutex<FxHashMap<EntryKey, Option<Arc<Delivery>>>>,
}

impl HeldLeases {
    pub(crate) fn insert(&self, held: impl Iterator<Item = (EntryKey, Option<Arc<Delivery>>)>) {
        lock(&self.table).extend(held);
    }

    pub(crate) fn remove<'a>(&self, held: impl Iterator<Item = &'a EntryKey>) {
        let mut table = lock(&self.table);
        for key in held {
            table.remove(key);
        }
    }

    /// Returns true if nothing is held now.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.table).is_empty()
    }

    /// Returns the deliveries that are held now.
    pub(crate) fn snapshot(&self) -> Vec<(EntryKey, Arc<Delivery>)> {
        let table = lock(&self.table);
        table.iter().filter_map(|(held, delivery)| Some((*held, Arc::clone(delivery.as_ref()?)))).collect()
    }

    /// Returns the entries whose attempts have begun, and how long each has run.
    pub(crate) fn running(&self, now: Instant) -> Vec<(EntryKey, Duration)> {
        let running = |(held, delivery): (EntryKey, Arc<Delivery>)| (held, delivery.held_lease.running(now));
        self.snapshot().into_iter().map(running).filter(|(_, running)| !running.is_zero()).collect()
    }

    /// Returns every entry that is held now.
    pub(crate) fn known(&self) -> HashSet<EntryKey> {
        lock(&self.table).keys().copied().collect()
    }

    /// Ends every attempt.
    pub(crate) fn cut_all(&self) {
        for (_, delivery) in self.snapshot() {
            delivery.held_lease.cut();
        }
    }
}
