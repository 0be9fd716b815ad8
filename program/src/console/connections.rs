//! The connections that are open. Once there are too many, those that have asked nothing yet make room for others, so that nobody
//! keeps everybody else out by opening many and saying nothing.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A connection has at least this long to ask something.
const LEAST: Duration = Duration::from_millis(100);

/// The open connections.
pub(super) struct Connections {
    most: usize,
    places: Arc<Semaphore>,
    /// Oldest first. One that has ended is a dead reference.
    open: VecDeque<Weak<Connection>>,
}

/// An open connection.
pub(super) struct Connection {
    accepted: Instant,
    is_answered: AtomicBool,
    end: CancellationToken,
    _place: OwnedSemaphorePermit,
}

impl Connections {
    /// Allows at most `most` open connections.
    pub(super) fn new(most: usize) -> Self {
        Self { most, places: Arc::new(Semaphore::new(most)), open: VecDeque::new() }
    }

    /// Finds a place for a connection: that of the oldest which has not been answered, if all are taken. If all have been answered,
    /// waits.
    pub(super) async fn place(&mut self) -> Arc<Connection> {
        let place = match Arc::clone(&self.places).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => self.make_room().await,
        };
        let (is_answered, end) = (AtomicBool::new(false), CancellationToken::new());
        let connection = Arc::new(Connection { accepted: Instant::now(), is_answered, end, _place: place });
        self.open.push_back(Arc::downgrade(&connection));
        connection
    }

    async fn make_room(&mut self) -> OwnedSemaphorePermit {
        self.open.retain(|connection| connection.strong_count() > 0);
        let mut open = self.open.iter().filter_map(Weak::upgrade);
        let silent = open.find(|open| !open.is_answered.load(Ordering::Relaxed) && !open.end.is_cancelled());
        if let Some(silent) = silent {
            tokio::time::sleep_until(silent.accepted + LEAST).await;
            silent.end.cancel();
        }
        Arc::clone(&self.places).acquire_owned().await.expect("the semaphore is never closed")
    }

    /// Returns true if more than half of the places are taken: then none should stay open without need.
    pub(super) fn is_crowded(&self) -> bool {
        self.places.available_permits() < self.most / 2
    }
}

impl Connection {
    /// Notes that something is answered.
    pub(super) fn note_answer(&self) {
        self.is_answered.store(true, Ordering::Relaxed);
    }

    /// Waits until it has to make room for another.
    pub(super) async fn must_end(&self) {
        self.end.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_that_is_not_answered_makes_room() {
        let mut all = Connections::new(3);
        let (answered, silent, other) = (all.place().await, all.place().await, all.place().await);
        answered.note_answer();
        let leave = async move {
            silent.must_end().await;
            drop(silent);
        };
        let (later, ()) = tokio::join!(all.place(), leave);
        assert!(!answered.end.is_cancelled() && !other.end.is_cancelled() && !later.end.is_cancelled());
    }
}
