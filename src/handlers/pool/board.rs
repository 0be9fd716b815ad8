//! What the programs of a pool are doing now, for the metrics.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

const NONE: u8 = 0;
const STARTING: u8 = 1;
const IDLE: u8 = 2;
const BUSY: u8 = 3;

/// What the program of one place is doing.
#[derive(Debug, Default)]
pub(super) struct Seat {
    state: AtomicU8,
    memory: AtomicU64,
}

/// The places of a pool.
#[derive(Debug)]
pub(super) struct Board {
    pub(super) seats: Vec<Seat>,
}

/// How many programs of a pool do what.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) busy: usize,
    pub(super) idle: usize,
    pub(super) starting: usize,
    pub(super) memory: u64,
}

impl Seat {
    pub(super) fn set_starting(&self) {
        self.state.store(STARTING, Ordering::Relaxed);
    }

    pub(super) fn set_busy(&self, busy: bool) {
        self.state.store(if busy { BUSY } else { IDLE }, Ordering::Relaxed);
    }

    pub(super) fn set_memory(&self, bytes: u64) {
        self.memory.store(bytes, Ordering::Relaxed);
    }

    /// Notes that there is no program.
    pub(super) fn clear(&self) {
        self.state.store(NONE, Ordering::Relaxed);
        self.set_memory(0);
    }
}

impl Board {
    pub(super) fn new(seats: usize) -> Self {
        Self { seats: (0..seats).map(|_| Seat::default()).collect() }
    }

    pub(super) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for seat in &self.seats {
            tally.memory += seat.memory.load(Ordering::Relaxed);
            match seat.state.load(Ordering::Relaxed) {
                STARTING => tally.starting += 1,
                IDLE => tally.idle += 1,
                BUSY => tally.busy += 1,
                _ => {}
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
        let board = Board::new(4);
        board.seats[0].set_starting();
        board.seats[1].set_busy(true);
        board.seats[1].set_memory(5);
        board.seats[2].set_busy(false);
        board.seats[2].set_memory(7);
        assert_eq!(board.tally(), Tally { busy: 1, idle: 1, starting: 1, memory: 12 });
        board.seats[1].clear();
        assert_eq!(board.tally(), Tally { busy: 0, idle: 1, starting: 1, memory: 7 });
    }
}
