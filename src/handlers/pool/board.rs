//! What the programs of a pool are doing now, for the metrics.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use crate::broker::mutex::lock;

const IDLE: u8 = 1;
const BUSY: u8 = 2;

/// What one program is doing: it starts, unless it says something else.
#[derive(Debug, Default)]
pub(super) struct Seat {
    state: AtomicU8,
    leaves: AtomicBool,
    memory: AtomicU64,
}

/// The programs of a pool.
#[derive(Debug, Default)]
pub(super) struct Board {
    seats: Mutex<Vec<Weak<Seat>>>,
}

/// How many programs of a pool do what.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) busy: usize,
    pub(super) idle: usize,
    pub(super) starting: usize,
    /// They take no more jobs, and end when they have none.
    pub(super) leaving: usize,
    pub(super) memory: u64,
}

impl Seat {
    pub(super) fn set_busy(&self, busy: bool) {
        self.state.store(if busy { BUSY } else { IDLE }, Ordering::Relaxed);
    }

    /// Notes that it takes no more jobs.
    pub(super) fn leave(&self) {
        self.leaves.store(true, Ordering::Relaxed);
    }

    pub(super) fn set_memory(&self, bytes: u64) {
        self.memory.store(bytes, Ordering::Relaxed);
    }
}

impl Board {
    /// Adds a program that starts, until the seat is dropped.
    pub(super) fn add(&self) -> Arc<Seat> {
        let seat = Arc::<Seat>::default();
        let mut seats = lock(&self.seats);
        seats.retain(|seat| seat.strong_count() > 0);
        seats.push(Arc::downgrade(&seat));
        seat
    }

    /// Returns true if a program takes jobs, whether it has one or not.
    pub(super) fn serves(&self) -> bool {
        let Tally { busy, idle, .. } = self.tally();
        busy + idle > 0
    }

    pub(super) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for seat in lock(&self.seats).iter().filter_map(Weak::upgrade) {
            tally.memory += seat.memory.load(Ordering::Relaxed);
            match seat.state.load(Ordering::Relaxed) {
                _ if seat.leaves.load(Ordering::Relaxed) => tally.leaving += 1,
                IDLE => tally.idle += 1,
                BUSY => tally.busy += 1,
                _ => tally.starting += 1,
            }
        }
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_counted_by_what_they_do() {
        let board = Board::default();
        let [_starting, busy, idle] = [(); 3].map(|()| board.add());
        busy.set_busy(true);
        busy.set_memory(5);
        idle.set_busy(false);
        idle.set_memory(7);
        assert_eq!(board.tally(), Tally { busy: 1, idle: 1, starting: 1, leaving: 0, memory: 12 });
        drop(busy);
        assert_eq!(board.tally(), Tally { busy: 0, idle: 1, starting: 1, leaving: 0, memory: 7 });
        idle.leave();
        idle.set_busy(true);
        assert_eq!(board.tally(), Tally { busy: 0, idle: 0, starting: 1, leaving: 1, memory: 7 });
        assert!(!board.serves());
        drop(board.add());
        let _another = board.add();
        assert_eq!(lock(&board.seats).len(), 3);
    }
}
