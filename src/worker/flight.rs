//! What this process holds of one queue: every entry from its delivery until Redis knows its outcome. The heartbeat
//! renews their leases; the reader asks whether an entry is known.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use tokio_util::sync::CancellationToken;

use crate::job::{EntryId, Lane};

/// One entry that this process holds.
#[derive(Debug)]
pub(crate) struct Flight {
    /// Cancelled when the attempt must end: timeout, shutdown, or a lost lease.
    pub(crate) cancellation: CancellationToken,
    /// When Redis last said that the entry is ours.
    renewed: AtomicU64,
    /// The lease is not renewed after this moment, so that a handler that can't be stopped does not keep its job.
    renew_until: AtomicU64,
    lost: AtomicBool,
}

/// A key of the table: an entry of one lane.
pub(crate) type Held = (Lane, EntryId);

/// The entries that this process holds of one queue.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    table: Mutex<FxHashMap<Held, Arc<Flight>>>,
}

static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Milliseconds of this process's monotonic clock: for leases held here, never for anything that is stored.
fn ticks(at: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(*EPOCH).as_millis()).unwrap_or(u64::MAX)
}

impl Flight {
    pub(crate) fn new(read_at: Instant) -> Self {
        LazyLock::force(&EPOCH);
        Self {
            cancellation: CancellationToken::new(),
            renewed: AtomicU64::new(ticks(read_at)),
            renew_until: AtomicU64::new(u64::MAX),
            lost: AtomicBool::new(false),
        }
    }

    /// Notes that Redis confirmed the lease of an entry asked about at `asked`.
    pub(crate) fn renew(&self, asked: Instant) {
        self.renewed.fetch_max(ticks(asked), Ordering::Relaxed);
    }

    /// How long ago Redis last said that the entry is ours.
    pub(crate) fn silent(&self, now: Instant) -> Duration {
        Duration::from_millis(ticks(now).saturating_sub(self.renewed.load(Ordering::Relaxed)))
    }

    pub(crate) fn renew_until(&self, deadline: Instant) {
        self.renew_until.store(ticks(deadline), Ordering::Relaxed);
    }

    pub(crate) fn is_renewable(&self, now: Instant) -> bool {
        !self.is_lost() && ticks(now) < self.renew_until.load(Ordering::Relaxed)
    }

    /// Marks the lease as lost and ends the attempt. True the first time.
    pub(crate) fn lose(&self) -> bool {
        let first = !self.lost.swap(true, Ordering::Relaxed);
        self.cancellation.cancel();
        first
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Flights {
    pub(crate) fn insert(&self, flights: impl Iterator<Item = (Held, Arc<Flight>)>) {
        self.lock().extend(flights);
    }

    pub(crate) fn remove<'a>(&self, held: impl Iterator<Item = &'a Held>) {
        let mut table = self.lock();
        for key in held {
            table.remove(key);
        }
    }

    /// Everything held now.
    pub(crate) fn snapshot(&self) -> Vec<(Held, Arc<Flight>)> {
        self.lock().iter().map(|(held, flight)| (*held, Arc::clone(flight))).collect()
    }

    /// Ends every attempt.
    pub(crate) fn cancel_all(&self) {
        for (_, flight) in self.snapshot() {
            flight.cancellation.cancel();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, FxHashMap<Held, Arc<Flight>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewal_never_goes_back_in_time() {
        let start = Instant::now();
        let flight = Flight::new(start);
        flight.renew(start + Duration::from_secs(5));
        flight.renew(start + Duration::from_secs(2));
        assert_eq!(flight.silent(start + Duration::from_secs(6)), Duration::from_secs(1));
    }

    #[test]
    fn a_lost_lease_ends_the_attempt_and_is_not_renewed() {
        let flight = Flight::new(Instant::now());
        assert!(flight.lose());
        assert!(!flight.lose());
        assert!(flight.cancellation.is_cancelled());
        assert!(!flight.is_renewable(Instant::now()));
    }
}
