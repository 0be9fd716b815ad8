//! A TCP proxy between one worker and Redis that loses, delays and forges traffic as the test demands.
//!
//! It cuts both directions into RESP frames, so it knows which reply answers which request. The mode can be
//! changed while connections are open; the frames that arrive from then on obey the new one.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, JoinHandle, Scope as ThreadScope};
use std::time::Duration;

use super::connection::Connection;

const CONNECTED: Duration = Duration::from_secs(2);

/// What the proxy does to the connections.
#[derive(Debug)]
pub enum Mode {
    /// Forward everything.
    Pass,
    /// Lose the reply: Redis executes the request, then both sides are closed. `needle` is searched in the
    /// first 4 KiB of the request and `holding` in its reply (empty: any reply). After this many `times` everything passes.
    /// Also affects a request that was waiting for its reply when the mode was set.
    DropReplyTo { needle: Vec<u8>, holding: Vec<u8>, times: usize },
    /// Half-open: the sockets stay open, bytes and even a close are swallowed. A connection that lost bytes is
    /// reset when another mode follows, because its requests and replies no longer match.
    Blackhole { scope: Scope, direction: Direction },
    /// Reset (RST) every connection, the open ones and the new ones.
    Rst,
    /// Accept new connections and close them. Open ones pass.
    Refuse,
    /// Hold back each piece that is read (at most 64 KiB) for this long.
    Delay { by: Duration, direction: Direction },
    /// Hold the `nth` request that contains `needle` in its first 4 KiB, or its reply, until another mode is set. Everything
    /// else on its connection waits behind it.
    Hold { needle: Vec<u8>, nth: usize, way: Direction },
    /// Answer `-error` instead of forwarding, once for each command of a pipeline, in order with real replies.
    Inject { error: String, to: Commands },
}

impl Mode {
    /// Loses the replies to this many requests that contain `needle`.
    pub fn drop_reply_to(needle: &str, times: usize) -> Self {
        Self::DropReplyTo { needle: needle.into(), holding: Vec::new(), times }
    }

    /// Simulates a half-open network: nothing passes either way.
    pub fn blackhole(scope: Scope) -> Self {
        Self::Blackhole { scope, direction: Direction::Both }
    }

    /// Answers every command except those of the handshake with an error, such as `LOADING Redis is loading`.
    pub fn inject(error: &str) -> Self {
        let handshake = ["AUTH", "HELLO", "PING", "CLIENT"];
        let to = Commands::Except(handshake.map(str::to_owned).to_vec());
        Self::Inject { error: error.to_owned(), to }
    }
}

/// Which connections are affected. The word is a whole argument (at most 128 bytes) of any request the connection ever sent: a
/// command in capitals, a key, a group.
#[derive(Clone, Debug)]
pub enum Scope {
    All,
    /// Those that have sent one of these words, which are separated by spaces.
    Sent(String),
    NeverSent(String),
    /// Those that have sent the word and were open when the mode was set. New connections work.
    OpenSent(String),
}

/// Which direction is affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Requests,
    Replies,
    Both,
}

/// Which commands are affected, by their names in capitals.
#[derive(Clone, Debug)]
pub enum Commands {
    All,
    Only(Vec<String>),
    Except(Vec<String>),
}

impl Commands {
    pub(super) fn contain(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.iter().any(|listed| listed == name),
            Self::Except(names) => names.iter().all(|listed| listed != name),
        }
    }
}

/// The current mode and how often it has struck.
pub(super) struct Active {
    pub(super) mode: Mode,
    /// How many connections had been accepted when it was set.
    pub(super) since: usize,
    hits: AtomicUsize,
    /// How many matching frames a hold has seen.
    met: AtomicUsize,
}

impl Active {
    fn new(mode: Mode, since: usize) -> Self {
        Self { mode, since, hits: AtomicUsize::new(0), met: AtomicUsize::new(0) }
    }

    /// Counts a frame that matches a hold. Returns true if it is the one to hold.
    pub(super) fn is_meant(&self, nth: usize) -> bool {
        self.met.fetch_add(1, Ordering::SeqCst) + 1 == nth
    }

    pub(super) fn hit(&self) {
        self.hits.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts a hit, unless there were `limit` hits already.
    pub(super) fn hit_within(&self, limit: usize) -> bool {
        let more = |hits| (hits < limit).then_some(hits + 1);
        self.hits.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
    }
}

/// What the connections know about their proxy.
pub(super) struct Shared {
    upstream: SocketAddr,
    active: Mutex<Arc<Active>>,
    stopping: AtomicBool,
    accepted: AtomicUsize,
    connections: Mutex<Vec<Weak<Connection>>>,
}

impl Shared {
    pub(super) fn active(&self) -> Arc<Active> {
        Arc::clone(&self.active.lock().unwrap())
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    fn open(&self) -> Vec<Arc<Connection>> {
        let mut connections = self.connections.lock().unwrap();
        connections.retain(|connection| connection.strong_count() > 0);
        connections.iter().filter_map(Weak::upgrade).collect()
    }
}

/// A listening proxy. Its connections are reset and its threads have ended when the drop returns.
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy in mode [`Mode::Pass`] on a free port.
    pub fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            upstream,
            active: Mutex::new(Arc::new(Active::new(Mode::Pass, 0))),
            stopping: AtomicBool::new(false),
            accepted: AtomicUsize::new(0),
            connections: Mutex::new(Vec::new()),
        });
        let theirs = Arc::clone(&shared);
        let acceptor = thread::spawn(move || accept_until_stopped(&listener, &theirs));
        Self { addr, shared, acceptor: Some(acceptor) }
    }

    /// Returns the address for clients.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Changes the mode and begins to count [`hits`](Self::hits) from 0.
    pub fn set(&self, mode: Mode) {
        let resets_all = matches!(mode, Mode::Rst);
        let resets_lossy = !matches!(mode, Mode::Blackhole { .. });
        let since = self.accepted();
        let next = Arc::new(Active::new(mode, since));
        *self.shared.active.lock().unwrap() = Arc::clone(&next);
        for connection in self.shared.open() {
            if resets_all {
                next.hit();
            }
            if resets_all || resets_lossy && connection.is_lossy() {
                connection.reset();
            }
        }
    }

    /// Returns how often the current mode has struck: replies dropped, frames swallowed, errors answered, pieces
    /// delayed, connections reset or refused.
    pub fn hits(&self) -> usize {
        self.shared.active().hits.load(Ordering::SeqCst)
    }

    /// Returns how many matching frames the current hold has seen, including the one that it holds.
    pub fn met(&self) -> usize {
        self.shared.active().met.load(Ordering::SeqCst)
    }

    /// Returns how many connections are open now.
    pub fn connections(&self) -> usize {
        self.shared.open().len()
    }

    /// Returns how many connections were ever accepted.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the acceptor. If the listener is gone already, so is the acceptor.
        drop(TcpStream::connect(self.addr));
        let ended = self.acceptor.take().expect("it is taken only here").join();
        assert!(ended.is_ok() || thread::panicking(), "a thread of the proxy panicked");
    }
}

fn accept_until_stopped(listener: &TcpListener, shared: &Arc<Shared>) {
    thread::scope(|scope| {
        for client in listener.incoming() {
            if shared.stopping.load(Ordering::SeqCst) {
                break;
            }
            accept(client.unwrap(), shared, scope);
        }
        for connection in shared.open() {
            connection.reset();
        }
    });
}

fn accept<'scope>(client: TcpStream, shared: &Arc<Shared>, scope: &'scope ThreadScope<'scope, '_>) {
    let nth = shared.accepted.fetch_add(1, Ordering::SeqCst);
    let active = shared.active();
    if matches!(active.mode, Mode::Refuse) {
        active.hit();
        return;
    }
    // A client of a server that is down finds its connection closed.
    let Ok(server) = TcpStream::connect_timeout(&shared.upstream, CONNECTED) else { return };
    let connection = Arc::new(Connection::new(client, server, Arc::clone(shared), nth));
    shared.connections.lock().unwrap().push(Arc::downgrade(&connection));
    // Checked again: a mode that was set before the push could not reset this connection.
    let active = shared.active();
    if matches!(active.mode, Mode::Rst) {
        active.hit();
        connection.reset();
    }
    let other = Arc::clone(&connection);
    scope.spawn(move || connection.pump_requests());
    scope.spawn(move || other.pump_replies());
}
