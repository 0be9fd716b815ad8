//! The connections that are open. Once there are too many, those that have asked nothing make room for others, so that nobody
//! keeps everybody else out by opening many and saying nothing.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// A connection that makes room may still ask something within this time: what it sent may have arrived already. This is a
/// pause of the runtime, which looks for what has arrived before it ends the pause, however late that is.
const LAST_LOOK: Duration = Duration::from_millis(10);

/// If it does ask, it gets its answer within this time.
const LAST_ANSWER: Duration = Duration::from_secs(1);

/// How many connections may be open.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// From so many on, each new connection ends another.
    pub crowded_from: usize,
    /// What ends needs a moment to be gone. There are never more than so many; further clients wait.
    pub most: usize,
    /// Whether connections that have been answered make room too, if all have been. Otherwise only those that have not.
    pub answered_make_room: bool,
}

/// The open connections.
pub(super) struct Connections {
    bounds: Bounds,
    places: Arc<Semaphore>,
    /// Oldest first, without those that have to end. One that is gone is a dead reference.
    open: VecDeque<Weak<Connection>>,
}

/// An open connection.
pub(super) struct Connection {
    address: IpAddr,
    stage: AtomicU8,
    end: CancellationToken,
    _place: OwnedSemaphorePermit,
}

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Stage {
    /// No request is complete.
    Silent,
    /// It has asked something.
    Asked,
    /// Its first answer has begun.
    Answered,
}

impl Connections {
    /// No connections yet.
    pub(super) fn new(bounds: Bounds) -> Self {
        Self { bounds, places: Arc::new(Semaphore::new(bounds.most)), open: VecDeque::new() }
    }

    /// Finds a place for a connection from this address. If too many are open, another one has to end.
    pub(super) async fn place(&mut self, address: IpAddr) -> Arc<Connection> {
        self.open.retain(|open| open.upgrade().is_some_and(|open| !open.end.is_cancelled()));
        if self.open.len() >= self.bounds.crowded_from
            && let Some(surplus) = self.surplus()
        {
            surplus.end.cancel();
        }
        let place = Arc::clone(&self.places).acquire_owned().await.expect("the semaphore is never closed");
        let (stage, end) = (AtomicU8::new(Stage::Silent as u8), CancellationToken::new());
        let connection = Arc::new(Connection { address, stage, end, _place: place });
        self.open.push_back(Arc::downgrade(&connection));
        connection
    }

    /// Returns the connection that makes room. Of those that have come least far, it is the oldest one of the address that has
    /// most of them: who opens many crowds out himself.
    fn surplus(&self) -> Option<Arc<Connection>> {
        let open: Vec<_> =
            self.open.iter().filter_map(Weak::upgrade).map(|open| (open.stage(), open)).collect();
        let least = open.iter().map(|(stage, _)| *stage).min()?;
        if least == Stage::Answered && !self.bounds.answered_make_room {
            return None;
        }
        let mut of_address: HashMap<IpAddr, usize> = HashMap::new();
        let candidates: Vec<_> = open.into_iter().filter(|(stage, _)| *stage == least).collect();
        candidates.iter().for_each(|(_, open)| *of_address.entry(open.address).or_default() += 1);
        let most = of_address.values().copied().max()?;
        candidates.into_iter().map(|(_, open)| open).find(|open| of_address.get(&open.address) == Some(&most))
    }

    /// Returns true if so many connections are open that none should stay open without need.
    pub(super) fn is_crowded(&self) -> bool {
        self.bounds.most - self.places.available_permits() > self.bounds.crowded_from / 2
    }
}

impl Connection {
    /// Notes how far it has come.
    pub(super) fn note(&self, stage: Stage) {
        self.stage.fetch_max(stage as u8, Ordering::Relaxed);
    }

    fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Relaxed) {
            0 => Stage::Silent,
            1 => Stage::Asked,
            _ => Stage::Answered,
        }
    }

    /// Waits until it has to end, to make room for another.
    pub(super) async fn must_end(&self) {
        self.end.cancelled().await;
        let was_silent = self.stage() == Stage::Silent;
        tokio::time::sleep(LAST_LOOK).await;
        if was_silent && self.stage() != Stage::Silent {
            tokio::time::sleep(LAST_ANSWER).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { crowded_from: 4, most: 8, answered_make_room: false };

    async fn opened(all: &mut Connections, addresses: &[u8]) -> Vec<Arc<Connection>> {
        let mut opened = Vec::new();
        for last in addresses {
            opened.push(all.place(IpAddr::from([10, 0, 0, *last])).await);
        }
        opened
    }

    fn ended(open: &[Arc<Connection>]) -> Vec<usize> {
        (0..open.len()).filter(|nth| open[*nth].end.is_cancelled()).collect()
    }

    #[tokio::test]
    async fn the_oldest_of_the_address_with_most_silent_ones_makes_room() {
        let mut all = Connections::new(BOUNDS);
        let open = opened(&mut all, &[1, 2, 2, 1, 2]).await;
        assert_eq!(ended(&open), [0], "both have two");
        let more = opened(&mut all, &[2, 3]).await;
        assert_eq!((ended(&open), ended(&more)), (vec![0, 1, 2], vec![]));
    }

    #[tokio::test]
    async fn those_that_have_come_least_far_make_room() {
        let mut all = Connections::new(BOUNDS);
        let open = opened(&mut all, &[1, 1, 1, 2]).await;
        open[0].note(Stage::Answered);
        open[1..3].iter().for_each(|open| open.note(Stage::Asked));
        let second = opened(&mut all, &[1]).await;
        assert_eq!(ended(&open), [3], "the only silent one");
        second[0].note(Stage::Asked);
        let third = opened(&mut all, &[2]).await;
        third[0].note(Stage::Answered);
        assert_eq!(ended(&open), [1, 3], "no answer has begun");
        open[2].note(Stage::Answered);
        second[0].note(Stage::Answered);
        let fourth = opened(&mut all, &[2]).await;
        assert_eq!((ended(&open), ended(&fourth)), (vec![1, 3], vec![]), "all have been answered");
    }

    #[tokio::test]
    async fn answered_ones_make_room_if_they_are_to() {
        let mut all = Connections::new(Bounds { answered_make_room: true, ..BOUNDS });
        let open = opened(&mut all, &[1, 2, 2, 2]).await;
        open.iter().for_each(|open| open.note(Stage::Answered));
        opened(&mut all, &[3]).await;
        assert_eq!(ended(&open), [1]);
    }

    #[tokio::test]
    async fn what_ends_may_still_say_what_it_was_about_to_say() {
        let mut all = Connections::new(Bounds { crowded_from: 1, ..BOUNDS });
        let open = opened(&mut all, &[1, 1, 1]).await;
        open[0].must_end().await;
        let begun = tokio::time::Instant::now();
        let asks = async {
            tokio::task::yield_now().await;
            open[1].note(Stage::Asked);
        };
        tokio::join!(open[1].must_end(), asks);
        assert!(begun.elapsed() >= LAST_ANSWER);
    }
}
