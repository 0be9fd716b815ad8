//! The listener's connections: few, short-lived, and never all taken. A client that opens many and sends nothing, or
//! sends one byte at a time, loses them to later clients, so that a probe always gets in.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// From this many connections, each new one closes the oldest one that has not been answered.
const MAX_OPEN: usize = 64;

/// A closed connection takes a short time to disappear. There are never more connections than this.
const MAX_CONNECTIONS: usize = 4 * MAX_OPEN;

/// A request must be complete, and its answer started, within this time. `/scale` may use two seconds of it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(6);

/// The client must have received the whole answer within this time.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// No connection is closed before it is this old, so that the listener has looked whether a request has arrived. Otherwise a
/// probe that arrives with many silent clients would be closed unread …
const MIN_AGE: Duration = Duration::from_millis(10);

/// … and not before the runtime has asked the system what has arrived, as it does before each end of a pause …
const LAST_LOOK: Duration = Duration::from_millis(1);

/// … and until it is this old, a closed connection may still read what has arrived, and answer.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);

/// A listener that accepts every client, with a bounded number of connections that live for a bounded time.
pub(super) struct BoundedListener {
    listener: TcpListener,
    permits: Arc<Semaphore>,
    /// Oldest first. A connection that has ended is a dead reference.
    open: VecDeque<Weak<Connection>>,
}

/// The listener's state of one connection.
struct Connection {
    accepted: Instant,
    /// True once the answer has started.
    is_answered: AtomicBool,
    /// Closes the connection.
    end: CancellationToken,
}

impl BoundedListener {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self { listener, permits: Arc::new(Semaphore::new(MAX_CONNECTIONS)), open: VecDeque::new() }
    }

    /// If too many connections are open, closes one.
    async fn make_room(&mut self) {
        if let Some(connection) = self.surplus() {
            tokio::time::sleep_until(connection.accepted + MIN_AGE).await;
        }
        // Some may have ended in the meantime.
        if let Some(connection) = self.surplus() {
            connection.end.cancel();
        }
    }

    /// Returns the connection to close if too many are open: the oldest unanswered one, or the oldest if all have been
    /// answered.
    fn surplus(&mut self) -> Option<Arc<Connection>> {
        self.open.retain(|connection| {
            connection.upgrade().is_some_and(|connection| !connection.end.is_cancelled())
        });
        if self.open.len() < MAX_OPEN {
            return None;
        }
        let mut open = self.open.iter().filter_map(Weak::upgrade);
        let unanswered = open.find(|connection| !connection.is_answered.load(Ordering::Relaxed));
        unanswered.or_else(|| self.open.front()?.upgrade())
    }
}

impl axum::serve::Listener for BoundedListener {
    type Io = BoundedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (BoundedStream, SocketAddr) {
        let (stream, address) = axum::serve::Listener::accept(&mut self.listener).await;
        self.make_room().await;
        let permits = Arc::clone(&self.permits);
        let permit = permits.acquire_owned().await.expect("the semaphore is never closed");
        let connection = Arc::new(Connection {
            accepted: Instant::now(),
            is_answered: AtomicBool::new(false),
            end: CancellationToken::new(),
        });
        self.open.push_back(Arc::downgrade(&connection));
        (BoundedStream::new(stream, connection, permit), address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection with a deadline.
pub(super) struct BoundedStream {
    stream: TcpStream,
    connection: Arc<Connection>,
    deadline: Pin<Box<Sleep>>,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
    /// The pause before the connection ends to make room.
    last_look: Option<Pin<Box<Sleep>>>,
    _permit: OwnedSemaphorePermit,
}

impl BoundedStream {
    fn new(stream: TcpStream, connection: Arc<Connection>, permit: OwnedSemaphorePermit) -> Self {
        let deadline = Box::pin(tokio::time::sleep(ANSWER_TIMEOUT));
        let ended = Box::pin(connection.end.clone().cancelled_owned());
        Self { stream, connection, deadline, ended, last_look: None, _permit: permit }
    }

    /// Returns an error if the connection has ended. One that was closed to make room ends unless it `makes_progress`.
    fn poll_end(&mut self, context: &mut Context<'_>, makes_progress: bool) -> io::Result<()> {
        let may_finish = makes_progress && self.connection.accepted.elapsed() < FINISH_TIMEOUT;
        let must_end = self.ended.as_mut().poll(context).is_ready() && !may_finish;
        let last_look = || Box::pin(tokio::time::sleep(LAST_LOOK));
        let is_closed =
            must_end && self.last_look.get_or_insert_with(last_look).as_mut().poll(context).is_ready();
        if is_closed || self.deadline.as_mut().poll(context).is_ready() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// Called when the answer starts.
    fn note_answer(&mut self) {
        if !self.connection.is_answered.swap(true, Ordering::Relaxed) {
            self.deadline.as_mut().reset(Instant::now() + RECEIVE_TIMEOUT);
        }
    }
}

impl AsyncRead for BoundedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.poll_end(context, read.is_ready())?;
        read
    }
}

impl AsyncWrite for BoundedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.note_answer();
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.poll_end(context, written.is_ready())?;
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
