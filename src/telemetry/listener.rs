//! Answers `/metrics`, the probes and `/scale`.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

use super::metrics::{Metrics, UPKEEP_EVERY};
use super::scaling;
use crate::probe::Probe;
use crate::scale::Scale;

/// More connections wait until others end.
const CONNECTIONS_MAX: usize = 64;

/// No connection lives longer, so that one that says nothing cannot hold its place. Scrapers connect again.
const CONNECTION_LIVES: Duration = Duration::from_secs(120);

/// What is answered from.
#[derive(Clone)]
pub struct Answers {
    /// The figures.
    pub metrics: Metrics,
    /// Whether the process is alive, and ready.
    pub probe: Probe,
    /// How much work there is.
    pub scale: Scale,
}

/// Why nothing listens.
#[derive(Debug, thiserror::Error)]
#[error("telemetry.listen: {address} cannot be used ({cause}); choose another port, or \"off\"")]
pub struct NotListening {
    address: SocketAddr,
    cause: io::Error,
}

/// An open port, not yet answering. It belongs to no runtime until it does.
pub struct Listener {
    listener: std::net::TcpListener,
}

impl Listener {
    /// Opens the port.
    ///
    /// # Errors
    ///
    /// [`NotListening`] where it is in use or may not be used.
    pub async fn open(address: SocketAddr) -> Result<Self, NotListening> {
        let listener = TcpListener::bind(address).await.and_then(TcpListener::into_std);
        listener.map(|listener| Self { listener }).map_err(|cause| NotListening { address, cause })
    }

    /// Where it listens, with the port that the system chose for port 0.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until stopped, and does the upkeep of the metrics.
    pub async fn run(self, answers: Answers, stop: CancellationToken) {
        let listener = match TcpListener::from_std(self.listener) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "the metrics listener cannot be used"),
        };
        let bounded = Bounded { listener, places: Arc::new(Semaphore::new(CONNECTIONS_MAX)) };
        let metrics = answers.metrics.clone();
        let routes = Router::new()
            .route("/metrics", get(figures))
            .route("/livez", get(alive))
            .route("/readyz", get(ready))
            .route("/startupz", get(started))
            .route("/scale", get(scale))
            .with_state(answers);
        let stopped = stop.clone().cancelled_owned();
        let serving = axum::serve(bounded, routes).with_graceful_shutdown(stopped);
        let upkeep = async {
            let mut beat = tokio::time::interval(UPKEEP_EVERY);
            loop {
                beat.tick().await;
                metrics.upkeep();
            }
        };
        // A scraper that keeps its connection must not keep the process.
        let grace = async {
            stop.cancelled().await;
            tokio::time::sleep(Duration::from_millis(500)).await;
        };
        tokio::select! {
            served = serving => if let Err(error) = served { tracing::error!(%error, "the metrics listener ended") },
            () = upkeep => {}
            () = grace => {}
        }
    }
}

async fn figures(State(answers): State<Answers>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], answers.metrics.render())
}

async fn alive(State(answers): State<Answers>) -> (StatusCode, String) {
    answer(answers.probe.alive())
}

async fn ready(State(answers): State<Answers>) -> (StatusCode, String) {
    answer(answers.probe.ready())
}

async fn started(State(answers): State<Answers>) -> (StatusCode, String) {
    answer(answers.probe.started())
}

async fn scale(State(answers): State<Answers>, RawQuery(query): RawQuery) -> impl IntoResponse {
    let (status, body) = scaling::answer(&answers.scale, query.as_deref().unwrap_or_default()).await;
    (status, [(header::CONTENT_TYPE, "application/json")], body)
}

fn answer(verdict: Result<(), String>) -> (StatusCode, String) {
    match verdict {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

/// A listener that hands out a bounded number of connections with bounded lives.
struct Bounded {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

impl axum::serve::Listener for Bounded {
    type Io = Mortal;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Mortal, SocketAddr) {
        let places = Arc::clone(&self.places);
        let place = places.acquire_owned().await.expect("the semaphore is never closed");
        let (stream, address) = axum::serve::Listener::accept(&mut self.listener).await;
        let end = Box::pin(tokio::time::sleep(CONNECTION_LIVES));
        (Mortal { stream, end, _place: place }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that ends by itself.
struct Mortal {
    stream: TcpStream,
    end: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Mortal {
    fn poll_end(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.end.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for Mortal {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_end(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Mortal {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_end(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
