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
const PLACES: usize = 64;

/// A closed connection takes a short time to disappear. There are never more connections than this.
const PLACES_MAX: usize = 4 * PLACES;

/// A request must be complete, and its answer started, within this time. `/scale` may use two seconds of it.
const ANSWERED_WITHIN: Duration = Duration::from_secs(6);

/// The client must have received the whole answer within this time.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);

/// No connection is closed before it is this old, so that the listener has looked whether a request has arrived. Otherwise a
/// probe that arrives with many silent clients would be closed unread …
const CLOSED_AFTER: Duration = Duration::from_millis(10);

/// … and until it is this old, a closed connection may still read what has arrived, and answer.
const FINISHED_WITHIN: Duration = Duration::from_secs(1);

/// A listener that accepts every client, with a bounded number of connections that live for a bounded time.
pub(super) struct Bounded {
    listener: TcpListener,
    places: Arc<Semaphore>,
    /// Oldest first. A connection that has ended is a dead reference.
    held: VecDeque<Weak<Place>>,
}

/// The listener's state of one connection.
struct Place {
    accepted: Instant,
    /// True once the answer has started.
    is_answered: AtomicBool,
    /// Closes the connection.
    end: CancellationToken,
}

impl Bounded {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(PLACES_MAX)), held: VecDeque::new() }
    }

    /// If all places are taken, closes a connection.
    async fn make_room(&mut self) {
        if let Some(place) = self.surplus() {
            tokio::time::sleep_until(place.accepted + CLOSED_AFTER).await;
        }
        // Some may have ended in the meantime.
        if let Some(place) = self.surplus() {
            place.end.cancel();
        }
    }

    /// Returns the connection to close if all places are taken: the oldest unanswered one, or the oldest if all have been
    /// answered.
    fn surplus(&mut self) -> Option<Arc<Place>> {
        self.held.retain(|place| place.upgrade().is_some_and(|place| !place.end.is_cancelled()));
        if self.held.len() < PLACES {
            return None;
        }
        let mut held = self.held.iter().filter_map(Weak::upgrade);
        let unanswered = held.find(|place| !place.is_answered.load(Ordering::Relaxed));
        unanswered.or_else(|| self.held.front()?.upgrade())
    }
}

impl axum::serve::Listener for Bounded {
    type Io = Mortal;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Mortal, SocketAddr) {
        let (stream, address) = axum::serve::Listener::accept(&mut self.listener).await;
        self.make_room().await;
        let places = Arc::clone(&self.places);
        let permit = places.acquire_owned().await.expect("the semaphore is never closed");
        let place = Arc::new(Place {
            accepted: Instant::now(),
            is_answered: AtomicBool::new(false),
            end: CancellationToken::new(),
        });
        self.held.push_back(Arc::downgrade(&place));
        (Mortal::new(stream, place, permit), address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection with a deadline.
pub(super) struct Mortal {
    stream: TcpStream,
    place: Arc<Place>,
    late: Pin<Box<Sleep>>,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
    _permit: OwnedSemaphorePermit,
}

impl Mortal {
    fn new(stream: TcpStream, place: Arc<Place>, permit: OwnedSemaphorePermit) -> Self {
        let late = Box::pin(tokio::time::sleep(ANSWERED_WITHIN));
        let ended = Box::pin(place.end.clone().cancelled_owned());
        Self { stream, place, late, ended, _permit: permit }
    }

    /// Returns an error if the connection has ended. One that was closed to make room ends when it `makes_progress` no more.
    fn poll_end(&mut self, context: &mut Context<'_>, makes_progress: bool) -> io::Result<()> {
        let may_finish = makes_progress && self.place.accepted.elapsed() < FINISHED_WITHIN;
        let is_closed = self.ended.as_mut().poll(context).is_ready() && !may_finish;
        if is_closed || self.late.as_mut().poll(context).is_ready() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// Called when the answer starts.
    fn answers(&mut self) {
        if !self.place.is_answered.swap(true, Ordering::Relaxed) {
            self.late.as_mut().reset(Instant::now() + TAKEN_WITHIN);
        }
    }
}

impl AsyncRead for Mortal {
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

impl AsyncWrite for Mortal {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.answers();
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
