//! The connections that are open. Once there are too many, those of somebody who has very many make room for others, or else
//! those of unknown clients, so that nobody keeps everybody else out by opening many, and saying or reading nothing.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// A connection that makes room may still ask something within this time: what it sent may have arrived already. This is a
/// pause of the runtime, which looks for what has arrived before it ends the pause, however late that is.
const LAST_LOOK: Duration = Duration::from_millis(10);

/// If it does ask, it gets its answer within this time.
const LAST_ANSWER: Duration = Duration::from_secs(1);

/// Once there are too many connections, those of a known client make room first if it has more than one in this many.
const SHARE: usize = 4;

/// How many connections may be open.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// From this many on, each new connection ends another.
    pub crowded_from: usize,
    /// What ends takes a moment to be gone. There are never more than this many; further clients wait.
    pub most: usize,
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
    /// Whose it is; see [`network_of`].
    client: IpAddr,
    /// The name of the client that was the first to be known.
    known: OnceLock<Box<str>>,
    stage: AtomicU8,
    /// Whether no request was complete when it had to make room.
    was_silent: AtomicBool,
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
    /// Its client is somebody whom the server knows.
    Known,
}

/// The client of a request, which a server that knows its clients may vouch for. It is an extension of each request.
#[derive(Clone)]
pub struct Visitor(Weak<Connection>);

impl Visitor {
    pub(super) fn of(connection: &Arc<Connection>) -> Self {
        Self(Arc::downgrade(connection))
    }

    /// Notes that the client is known, by this name. Its connection makes room for no other, unless the client has very many.
    pub fn vouch(&self, name: &str) {
        if let Some(connection) = self.0.upgrade() {
            connection.known.get_or_init(|| name.into());
            connection.note(Stage::Known);
        }
    }
}

/// What counts as one client: an IPv4 address, or the 64 bits of an IPv6 address that name a network, in which everybody has as
/// many addresses as they like (RFC 4291, section 2.5.1).
pub fn network_of(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address @ IpAddr::V4(_) => address,
    }
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
            && let Some((stage, surplus)) = self.surplus()
        {
            surplus.make_room(stage);
        }
        let place = Arc::clone(&self.places).acquire_owned().await.expect("the semaphore is never closed");
        let (stage, end) = (AtomicU8::new(Stage::Silent as u8), CancellationToken::new());
        let (client, known) = (network_of(address), OnceLock::new());
        let connection = Arc::new(Connection {
            client,
            known,
            stage,
            was_silent: AtomicBool::new(false),
            end,
            _place: place,
        });
        self.open.push_back(Arc::downgrade(&connection));
        connection
    }

    /// Returns the connection that makes room, and how far it has come: the oldest one of a known client that has more than its share. Otherwise, of those
    /// that have come least far, it is the oldest one of the client that has most of them: who opens many crowds out himself.
    fn surplus(&self) -> Option<(Stage, Arc<Connection>)> {
        let open: Vec<_> =
            self.open.iter().filter_map(Weak::upgrade).map(|open| (open.stage(), open)).collect();
        let known = open.iter().filter_map(|(_, open)| Some((open.known.get()?, open)));
        let known = oldest_of_most(known.collect());
        if let Some((most, oldest)) = &known
            && *most > open.len() / SHARE
        {
            return Some((Stage::Known, Arc::clone(oldest)));
        }
        let unknown: Vec<_> = open.iter().filter(|(stage, _)| *stage < Stage::Known).collect();
        let Some(least) = unknown.iter().map(|(stage, _)| *stage).min() else {
            return known.map(|(_, oldest)| (Stage::Known, oldest));
        };
        let candidates = unknown.into_iter().filter(|(stage, _)| *stage == least);
        let oldest = oldest_of_most(candidates.map(|(_, open)| (open.client, open)).collect());
        oldest.map(|(_, oldest)| (least, oldest))
    }

    /// Returns true if so many connections are open that none should stay open without need.
    pub(super) fn is_crowded(&self) -> bool {
        self.bounds.most - self.places.available_permits() > self.bounds.crowded_from / 2
    }
}

/// How many of these connections the client has that has most of them, and the oldest of these. They are in the order of their age.
fn oldest_of_most<C: Eq + Hash>(open: Vec<(C, &Arc<Connection>)>) -> Option<(usize, Arc<Connection>)> {
    let mut of_client: HashMap<&C, usize> = HashMap::new();
    open.iter().for_each(|(client, _)| *of_client.entry(client).or_default() += 1);
    let most = of_client.values().copied().max()?;
    let (_, oldest) = open.iter().find(|(client, _)| of_client.get(client) == Some(&most))?;
    Some((most, Arc::clone(oldest)))
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
            _ => Stage::Known,
        }
    }

    /// Lets it end, because it had come this far. Its task may read a request before it learns that.
    fn make_room(&self, stage: Stage) {
        self.was_silent.store(stage == Stage::Silent, Ordering::Relaxed);
        self.end.cancel();
    }

    /// Waits until it has to end, to make room for another.
    pub(super) async fn must_end(&self) {
        self.end.cancelled().await;
        tokio::time::sleep(LAST_LOOK).await;
        if self.was_silent.load(Ordering::Relaxed) && self.stage() != Stage::Silent {
            tokio::time::sleep(LAST_ANSWER).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { crowded_from: 4, most: 8 };

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
        Visitor::of(&open[0]).vouch("ann");
        open[1..3].iter().for_each(|open| open.note(Stage::Asked));
        let second = opened(&mut all, &[1]).await;
        assert_eq!(ended(&open), [3], "the only silent one");
        second[0].note(Stage::Asked);
        let third = opened(&mut all, &[2]).await;
        assert_eq!(ended(&open), [1, 3], "the oldest whose client is unknown");
        for (known, name) in [(&open[2], "bob"), (&second[0], "cid"), (&third[0], "dan")] {
            Visitor::of(known).vouch(name);
        }
        let fourth = opened(&mut all, &[2]).await;
        assert_eq!((ended(&open), ended(&fourth)), (vec![0, 1, 3], vec![]), "all are known");
    }

    #[tokio::test]
    async fn somebody_known_who_has_very_many_makes_room_for_all_others() {
        let mut all = Connections::new(Bounds { crowded_from: 8, most: 16 });
        let open = opened(&mut all, &[1, 2, 2, 2, 3, 4, 5, 6]).await;
        for (nth, name) in [(0, "ann"), (1, "eve"), (2, "eve"), (4, "bob")] {
            Visitor::of(&open[nth]).vouch(name);
        }
        let _more = opened(&mut all, &[7]).await;
        assert_eq!(ended(&open), [3], "two of eight are not too many");
        Visitor::of(&open[5]).vouch("eve");
        opened(&mut all, &[7]).await;
        assert_eq!(ended(&open), [1, 3]);
    }

    #[tokio::test]
    async fn the_oldest_unknown_client_with_most_connections_makes_room() {
        let mut all = Connections::new(BOUNDS);
        let open = opened(&mut all, &[1, 2, 2, 2]).await;
        open.iter().for_each(|open| open.note(Stage::Asked));
        opened(&mut all, &[3]).await;
        assert_eq!(ended(&open), [1]);
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let network = |address: &str| network_of(address.parse().unwrap());
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:2"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_eq!(network("::ffff:10.0.0.7"), IpAddr::from([10, 0, 0, 7]));
    }

    #[tokio::test]
    async fn what_ends_may_still_say_what_it_was_about_to_say() {
        let mut all = Connections::new(Bounds { crowded_from: 1, ..BOUNDS });
        let open = opened(&mut all, &[1, 1, 1, 1]).await;
        open[0].must_end().await;
        let begun = tokio::time::Instant::now();
        let asks = async {
            tokio::task::yield_now().await;
            open[1].note(Stage::Asked);
        };
        tokio::join!(open[1].must_end(), asks);
        assert!(begun.elapsed() >= LAST_ANSWER);
        // Its request was read before it learned that it has to end.
        open[2].note(Stage::Asked);
        let begun = tokio::time::Instant::now();
        open[2].must_end().await;
        assert!(begun.elapsed() >= LAST_ANSWER);
    }
}
