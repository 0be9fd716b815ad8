//! Serves `/metrics`, the probes and `/scale`.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::{RawQuery, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;

use super::scale;
use super::scrapes::Scrapes;
use super::server::{Bounds, Terms, names_no_site, serve};
use crate::telemetry::{Metrics, UPKEEP_EVERY};
use streamfleet::Autoscale;
use streamfleet::Probe;

/// How many connections may wait to be accepted. The system ignores further clients, and they try again after a second:
/// too late for most probes. See `listen(2)`.
const QUEUED: u32 = 1024;

/// Each connection gets one answer: one that stays idle would occupy a place. Any of them makes room for a probe.
const TERMS: Terms = Terms {
    bounds: Bounds { crowded_from: 64, most: 512 },
    keep_alive: false,
    head: Duration::from_secs(6),
    unread_ms: 10_000,
    // `/scale` may use two seconds of it.
    whole: Some(Duration::from_secs(16)),
    // A scraper must not keep the process running.
    drain: Duration::from_millis(500),
};

/// The state that the answers come from.
#[derive(Clone)]
pub(super) struct Answers {
    /// The process's metrics.
    pub(super) metrics: Metrics,
    /// Whether the process is alive and ready.
    pub(super) probe: Probe,
    /// How much work there is.
    pub(super) scale: Autoscale,
}

/// Why the listener could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("telemetry.listen: {address} cannot be used ({cause}); choose another port, or \"off\"")]
pub struct NotListening {
    address: SocketAddr,
    cause: io::Error,
}

/// An open port that does not answer yet. It belongs to no runtime until it runs.
pub(super) struct Listener {
    listener: std::net::TcpListener,
}

impl Listener {
    /// Opens the port.
    ///
    /// # Errors
    ///
    /// [`NotListening`] if the port is in use or not permitted.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub(super) fn open(address: SocketAddr) -> Result<Self, NotListening> {
        let listener = listen(address).and_then(TcpListener::into_std);
        listener.map(|listener| Self { listener }).map_err(|cause| NotListening { address, cause })
    }

    /// Returns the address, with the port that the system chose for port 0.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests until it is stopped, and does the upkeep of the metrics.
    pub(super) async fn run(self, answers: Answers, stop: CancellationToken) {
        let listener = match TcpListener::from_std(self.listener) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "the metrics listener cannot be used"),
        };
        let metrics = answers.metrics.clone();
        let is_loopback = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
        let scrapes = Scrapes::new();
        let routes = Router::new()
            .route("/metrics", get(move |State(answers): State<Answers>| render_metrics(answers, scrapes)))
            .route("/livez", get(alive))
            .route("/readyz", get(ready))
            .route("/startupz", get(started))
            .route("/scale", get(scale))
            .with_state(answers);
        // Elsewhere, a Service of Kubernetes may have any name.
        let routes = if is_loopback { routes.layer(from_fn(refuse_sites)) } else { routes };
        let upkeep = async {
            let mut beat = tokio::time::interval(UPKEEP_EVERY);
            loop {
                beat.tick().await;
                metrics.upkeep();
            }
        };
        tokio::select! {
            () = serve(listener, routes, TERMS, stop.cancelled()) => {}
            () = upkeep => {}
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Like `TcpListener::bind`, so that a restarted process gets its port back.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(QUEUED)
}

/// Refuses what a browser asks for the page of another site.
async fn refuse_sites(request: Request, next: Next) -> Response {
    if !names_no_site(request.headers()) {
        let why = "ask this listener by localhost or its address: it serves no other name\n";
        return (StatusCode::MISDIRECTED_REQUEST, why).into_response();
    }
    next.run(request).await
}

async fn render_metrics(answers: Answers, scrapes: Scrapes) -> impl IntoResponse {
    let text = scrapes.text(move || answers.metrics.render()).await;
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}

async fn alive(State(answers): State<Answers>) -> (StatusCode, String) {
    answer(answers.probe.alive())
}

async fn ready(State(answers): State<Answers>) -> (StatusCode, String) {
    answers.probe.refresh().await;
    let (status, mut body) = answer(answers.probe.ready());
    if status == StatusCode::OK {
        answers.probe.unserved().iter().for_each(|line| body.push_str(&format!("{line}\n")));
    }
    (status, body)
}

async fn started(State(answers): State<Answers>) -> (StatusCode, String) {
    answer(answers.probe.started())
}

async fn scale(State(answers): State<Answers>, RawQuery(query): RawQuery) -> impl IntoResponse {
    let (status, body) = scale::answer(&answers.scale, query.as_deref().unwrap_or_default()).await;
    (status, [(header::CONTENT_TYPE, "application/json")], body)
}

fn answer(verdict: Result<(), String>) -> (StatusCode, String) {
    match verdict {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}
